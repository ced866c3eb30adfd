"""The rules of `dra lint`: what is wrong with classes, requests and devices before anybody runs a pod."""

from collections.abc import Sequence

from scheduler.checks.contract import Check
from scheduler.checks.lint.admin_access_without_label import ADMIN_ACCESS_WITHOUT_LABEL
from scheduler.checks.lint.capacity_without_policy import CAPACITY_WITHOUT_POLICY
from scheduler.checks.lint.class_without_selectors import CLASS_WITHOUT_SELECTORS
from scheduler.checks.lint.duplicate_object import DUPLICATE_OBJECT
from scheduler.checks.lint.gate_off import GATE_OFF
from scheduler.checks.lint.invalid_object import INVALID_OBJECT
from scheduler.checks.lint.manifests import Manifests
from scheduler.checks.lint.missing_claim import MISSING_CLAIM
from scheduler.checks.lint.missing_class import MISSING_CLASS
from scheduler.checks.lint.near_limit import NEAR_LIMIT
from scheduler.checks.lint.old_version import OLD_VERSION
from scheduler.checks.lint.selector_cost import SELECTOR_COST
from scheduler.checks.lint.selector_fails import SELECTOR_FAILS
from scheduler.checks.lint.selector_matches_all import SELECTOR_MATCHES_ALL
from scheduler.checks.lint.selector_matches_none import SELECTOR_MATCHES_NONE
from scheduler.checks.lint.selector_too_expensive import SELECTOR_TOO_EXPENSIVE
from scheduler.checks.lint.taints_everything import TAINTS_EVERYTHING
from scheduler.checks.lint.taints_nothing import TAINTS_NOTHING
from scheduler.checks.lint.unknown_attribute import UNKNOWN_ATTRIBUTE
from scheduler.checks.lint.unknown_field import UNKNOWN_FIELD
from scheduler.checks.lint.unknown_request import UNKNOWN_REQUEST
from scheduler.checks.lint.unreadable_input import UNREADABLE_INPUT
from scheduler.checks.lint.unsatisfiable_request import UNSATISFIABLE_REQUEST
from scheduler.checks.lint.unshareable_claim import UNSHAREABLE_CLAIM
from scheduler.checks.lint.unusable_pool import UNUSABLE_POOL
from scheduler.checks.lint.unused_claim import UNUSED_CLAIM
from scheduler.checks.lint.unused_input import UNUSED_INPUT

RULES: Sequence[Check[Manifests]] = (
    UNREADABLE_INPUT,
    INVALID_OBJECT,
    UNKNOWN_FIELD,
    DUPLICATE_OBJECT,
    SELECTOR_TOO_EXPENSIVE,
    ADMIN_ACCESS_WITHOUT_LABEL,
    SELECTOR_FAILS,
    UNKNOWN_ATTRIBUTE,
    MISSING_CLASS,
    MISSING_CLAIM,
    UNKNOWN_REQUEST,
    UNSATISFIABLE_REQUEST,
    SELECTOR_MATCHES_NONE,
    SELECTOR_COST,
    CLASS_WITHOUT_SELECTORS,
    TAINTS_EVERYTHING,
    TAINTS_NOTHING,
    CAPACITY_WITHOUT_POLICY,
    UNUSED_CLAIM,
    UNSHAREABLE_CLAIM,
    UNUSABLE_POOL,
    NEAR_LIMIT,
    OLD_VERSION,
    GATE_OFF,
    UNUSED_INPUT,
    SELECTOR_MATCHES_ALL,
)
