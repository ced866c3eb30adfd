import pytest

from scheduler.offline.input_claims import ENTRY_ANNOTATION, Claims, uid_of_pod
from scheduler.state.claims import Waiting
from tests.unit.scheduler.manifests import Json, a_claim, a_pod, a_request, a_template, owned_by
from tests.unit.scheduler.scenario import inventory_of, taken


def resolved(*objects: Json) -> list[str]:
    """The names of the claims of the first pod."""
    inventory = inventory_of(*objects)
    found = Claims(inventory).of(inventory.pods[0])
    assert not isinstance(found, Waiting), found.reason
    return [claim.claim.name for _, claim in found]


def reason_to_wait(*objects: Json) -> str:
    inventory = inventory_of(*objects)
    found = Claims(inventory).of(inventory.pods[0])
    assert isinstance(found, Waiting)
    return found.reason


def a_generated_claim(name: str, *, pod_uid: str, entry: str = "dev") -> Json:
    metadata = {**owned_by("Pod", "p", pod_uid), "annotations": {ENTRY_ANNOTATION: entry}}
    return a_claim(name, metadata=metadata)


def with_status(name: str | None) -> Json:
    named = {} if name is None else {"resourceClaimName": name}
    return {"resourceClaimStatuses": [{"name": "dev", **named}]}


def test_a_named_claim_is_the_one_of_the_pods_namespace() -> None:
    pod = a_pod("p", claim="c", namespace="ml")
    assert resolved(pod, a_claim("c", namespace="ml")) == ["c"]
    assert reason_to_wait(pod, a_claim("c", namespace="default")) == "claim ml/c does not exist"


def test_claims_come_in_the_order_of_the_entries() -> None:
    entries = [{"name": name, "resourceClaimName": name} for name in ("b", "a")]
    assert resolved(a_pod("p", entries=entries), a_claim("a"), a_claim("b")) == ["b", "a"]


def test_a_missing_claim_of_an_input_without_any_claim_says_so() -> None:
    reason = reason_to_wait(a_pod("p", claim="c"))
    assert reason == "claim default/c does not exist (the input contains no ResourceClaim at all)"


def test_the_status_of_a_pod_says_which_claim_was_made_for_an_entry() -> None:
    pod = a_pod("p", template="one", metadata={"uid": "u"}, status=with_status("p-dev-abcde"))
    assert resolved(pod, a_generated_claim("p-dev-abcde", pod_uid="u"), a_template()) == ["p-dev-abcde"]


def test_a_status_without_a_name_means_that_no_claim_is_needed() -> None:
    assert resolved(a_pod("p", template="one", status=with_status(None)), a_template()) == []


def test_a_claim_that_the_status_names_and_that_is_gone_is_waited_for() -> None:
    pod = a_pod("p", template="one", status=with_status("p-dev-abcde"))
    assert reason_to_wait(pod, a_template(), a_claim("other")) == "claim default/p-dev-abcde does not exist"


@pytest.mark.parametrize("owner", [{}, owned_by("Pod", "q", "other")])
def test_a_claim_that_was_made_for_another_pod_is_not_used(owner: Json) -> None:
    pod = a_pod("p", template="one", metadata={"uid": "u"}, status=with_status("p-dev-abcde"))
    reason = reason_to_wait(pod, a_claim("p-dev-abcde", metadata=owner))
    assert reason == "claim default/p-dev-abcde was not created for pod default/p (the pod is not its owner)"


def test_an_owner_that_is_no_controller_does_not_count() -> None:
    owner = {"ownerReferences": [{"kind": "Pod", "name": "p", "uid": "u"}]}
    pod = a_pod("p", template="one", metadata={"uid": "u"}, status=with_status("p-dev-abcde"))
    assert "not its owner" in reason_to_wait(pod, a_claim("p-dev-abcde", metadata=owner))


def test_a_claim_made_for_an_entry_that_the_status_does_not_name_yet_is_found_by_its_annotation() -> None:
    pod = a_pod("p", template="one", metadata={"uid": "u"})
    assert resolved(pod, a_generated_claim("p-dev-abcde", pod_uid="u"), a_template()) == ["p-dev-abcde"]


@pytest.mark.parametrize(("uid", "entry"), [("other", "dev"), ("u", "other")])
def test_a_claim_made_for_another_pod_or_entry_is_not_taken_for_it(uid: str, entry: str) -> None:
    pod = a_pod("p", template="one", metadata={"uid": "u"})
    (name,) = resolved(pod, a_generated_claim("p-dev-abcde", pod_uid=uid, entry=entry), a_template())
    assert name != "p-dev-abcde"


@pytest.mark.parametrize(
    "owner",
    [{"kind": "Pod", "name": "p", "uid": "u"}, {"kind": "PodGroup", "name": "p", "uid": "u", "controller": True}],
)
def test_a_claim_that_no_pod_controls_is_not_taken_for_an_entry(owner: Json) -> None:
    metadata = {"ownerReferences": [owner], "annotations": {ENTRY_ANNOTATION: "dev"}}
    pod = a_pod("p", template="one", metadata={"uid": "u"})
    (name,) = resolved(pod, a_claim("p-dev-abcde", metadata=metadata), a_template())
    assert name != "p-dev-abcde"


@pytest.mark.parametrize("by", ["name", "status", "annotation"])
def test_a_claim_that_is_being_deleted_is_waited_for(by: str) -> None:
    metadata = {
        **owned_by("Pod", "p", "u"),
        "annotations": {ENTRY_ANNOTATION: "dev"},
        "deletionTimestamp": "2026-01-01T00:00:00Z",
    }
    pod = a_pod(
        "p",
        claim="c" if by == "name" else "",
        template="" if by == "name" else "one",
        metadata={"uid": "u"},
        status=with_status("c") if by == "status" else None,
    )
    assert reason_to_wait(pod, a_claim("c", metadata=metadata), a_template()) == "claim default/c is being deleted"


def test_a_missing_template_is_named_with_its_namespace() -> None:
    pod = a_pod("p", template="one", namespace="ml")
    assert reason_to_wait(pod, a_template(namespace="default")) == "claim template ml/one does not exist"
    hint = "(the input contains no ResourceClaimTemplate at all)"
    assert reason_to_wait(pod) == f"claim template ml/one does not exist {hint}"


def test_a_claim_that_holds_an_error_is_not_called_missing() -> None:
    inventory = taken(a_claim("c", a_request(count=-1)), a_pod("p", claim="c"))
    assert Claims(inventory).of(inventory.pods[0]) == Waiting("claim default/c has errors")


@pytest.mark.parametrize(
    ("unknown", "fields"),
    [
        ({"spec": {"devices": {"requests": [a_request()]}}}, "devices"),
        ({"flavour": "sweet"}, "flavour"),
    ],
    ids=["spec without its inner spec", "beside the spec"],
)
def test_a_template_with_an_unknown_field_is_not_used(unknown: Json, fields: str) -> None:
    reason = reason_to_wait(a_pod("p", template="one"), {**a_template("one"), **unknown})
    assert reason == f"claim template default/one has unknown fields: {fields}"


def test_an_unknown_field_in_the_metadata_of_a_template_takes_nothing_away() -> None:
    template = a_template("one", labels={"a": "b"}, flavour="sweet")
    template["metadata"]["flavour"] = "sweet"
    assert len(resolved(a_pod("p", template="one"), template)) == 1


def test_a_claim_is_made_of_the_template_as_the_claim_controller_makes_it() -> None:
    template = a_template("one", a_request(count=2), labels={"team": "a"}, annotations={"note": "b"})
    inventory = inventory_of(a_pod("p", template="one", metadata={"uid": "u"}), template)
    claims = Claims(inventory)
    ((_, made),) = claims.of(inventory.pods[0])  # type: ignore[misc] # Waiting is no list, and fails here
    metadata = made.decoded.raw["metadata"]
    assert metadata["name"].startswith("p-dev-")
    assert metadata["generateName"] == "p-dev-"
    assert metadata["labels"] == {"team": "a"}
    assert metadata["annotations"] == {"note": "b", ENTRY_ANNOTATION: "dev"}
    assert metadata["ownerReferences"] == [
        {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "controller": True}
    ]
    assert made.claim.requests[0].alternatives[0].count == 2
    assert made.claim.uid == metadata["uid"]
    assert claims.objects["default", made.claim.name] is made


@pytest.mark.parametrize("name", ["p", "p" * 70, "q.r"])
def test_a_claim_made_like_another_is_the_same_but_for_the_object_as_such(name: str) -> None:
    template = a_template("one", a_request(count=2), labels={"team": "a"}, annotations={"note": "b"})
    pods = [a_pod(one, template="one", metadata={"uid": one}) for one in ("first", name)]
    inventory = inventory_of(*pods, template)
    whole, lean = Claims(inventory), Claims(inventory, keeps_raw=False)
    for pod in inventory.pods:
        ((_, made),) = whole.of(pod)  # type: ignore[misc] # as above
        ((_, like),) = lean.of(pod)  # type: ignore[misc]
        assert like.claim == made.claim
        assert like.metadata == made.metadata
        assert not like.raw


def test_a_claim_that_cannot_have_its_name_is_not_made_like_another() -> None:
    pods = [a_pod(one, template="one") for one in ("first", "p" * 51 + "." + "p" * 8)]
    claims = [Claims(inventory_of(*pods, a_template()), keeps_raw=keeps_raw) for keeps_raw in (True, False)]
    first, second = inventory_of(*pods, a_template()).pods
    refused = [(one.of(first) and one.of(second)) for one in claims]
    assert isinstance(refused[0], Waiting)
    assert refused[0] == refused[1]


def test_the_name_of_a_made_claim_is_the_same_on_every_run_and_for_any_order_of_input() -> None:
    objects = [a_pod("p", template="one"), a_template()]
    assert resolved(*objects) == resolved(*reversed(objects)) == ["p-dev-kttvk"]


@pytest.mark.parametrize("uid", ["u", ""])
def test_a_claim_is_made_once(uid: str) -> None:
    inventory = inventory_of(a_pod("p", template="one", metadata={"uid": uid}), a_template())
    claims = Claims(inventory)
    first, second = (claims.of(inventory.pods[0]) for _ in range(2))
    assert first == second
    assert len(claims.objects) == 1


def test_a_name_that_is_taken_is_not_given_again() -> None:
    (name,) = resolved(a_pod("p", template="one"), a_template())
    (other,) = resolved(a_pod("p", template="one"), a_template(), a_claim(name))
    assert other.startswith("p-dev-")
    assert other != name


def test_entries_of_one_template_get_claims_of_their_own() -> None:
    entries = [{"name": name, "resourceClaimTemplateName": "one"} for name in ("a", "b")]
    names = resolved(a_pod("p", entries=entries), a_template())
    assert [name[:4] for name in names] == ["p-a-", "p-b-"]


def test_long_names_are_cut_so_that_the_claim_has_a_valid_one() -> None:
    (name,) = resolved(a_pod("p" * 253, template="one"), a_template())
    assert name[:-5] == "p" * 55 + "-"


@pytest.mark.parametrize(
    "pod", [a_pod("p" * 51 + "." + "p" * 8, template="one"), a_pod("p" * 54 + "." + "p" * 198, template="one")]
)
def test_a_cut_that_leaves_no_valid_name_is_said(pod: Json) -> None:
    reason = reason_to_wait(pod, a_template())
    assert reason.startswith("cannot create a claim from template default/one: metadata.name: must be a DNS subdomain")


def test_a_pod_without_a_uid_gets_one_of_its_name() -> None:
    first, second = inventory_of(a_pod("p"), a_pod("q")).pods
    assert uid_of_pod(first) != uid_of_pod(second)
    assert uid_of_pod(inventory_of(a_pod("p", metadata={"uid": "u"})).pods[0]) == "u"


def test_a_missing_template_or_claim_comes_with_those_that_are_like_it() -> None:
    assert reason_to_wait(a_pod("p", template="gpu-larg"), a_template("gpu-large"), a_template("nic")) == (
        "claim template default/gpu-larg does not exist; did you mean gpu-large?"
    )
    pod = a_pod("p", claim="shared-cliam")
    assert reason_to_wait(pod, a_claim("shared-claim"), a_claim("shared-claim", namespace="other")) == (
        "claim default/shared-cliam does not exist; did you mean shared-claim?"
    )


def test_claim_of_another_ones_pod_group_is_refused_by_name() -> None:
    claim = a_claim("c", metadata=owned_by("PodGroup", "g"))
    assert reason_to_wait(a_pod("p", claim="c"), claim) == (
        "claim default/c belongs to a pod group: PodGroup claims unsupported"
    )
