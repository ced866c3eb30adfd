"""The rules of `dra lint`: what is wrong with classes, requests and devices before anybody runs a pod."""

from collections.abc import Sequence

from scheduler.checks.contract import Check
from scheduler.checks.lint.capacity_without_policy import CAPACITY_WITHOUT_POLICY
from scheduler.checks.lint.class_without_selectors import CLASS_WITHOUT_SELECTORS
from scheduler.checks.lint.invalid_object import INVALID_OBJECT
from scheduler.checks.lint.manifests import Manifests
from scheduler.checks.lint.missing_claim import MISSING_CLAIM
from scheduler.checks.lint.near_limit import NEAR_LIMIT
from scheduler.checks.lint.old_version import OLD_VERSION
from scheduler.checks.lint.selector_cost import SELECTOR_COST
from scheduler.checks.lint.selector_fails import SELECTOR_FAILS
from scheduler.checks.lint.selector_matches_all import SELECTOR_MATCHES_ALL
from scheduler.checks.lint.selector_matches_none import SELECTOR_MATCHES_NONE
from scheduler.checks.lint.selector_too_expensive import SELECTOR_TOO_EXPENSIVE
from scheduler.checks.lint.unknown_attribute import UNKNOWN_ATTRIBUTE
from scheduler.checks.lint.unsatisfiable_request import UNSATISFIABLE_REQUEST

RULES: Sequence[Check[Manifests]] = (
    INVALID_OBJECT,
    SELECTOR_TOO_EXPENSIVE,
    SELECTOR_FAILS,
    UNKNOWN_ATTRIBUTE,
    MISSING_CLAIM,
    UNSATISFIABLE_REQUEST,
    SELECTOR_MATCHES_NONE,
    SELECTOR_COST,
    CLASS_WITHOUT_SELECTORS,
    CAPACITY_WITHOUT_POLICY,
    NEAR_LIMIT,
    OLD_VERSION,
    SELECTOR_MATCHES_ALL,
)
