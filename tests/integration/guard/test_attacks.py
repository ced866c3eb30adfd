"""Whoever reaches the guard's port, devices are allocated as before, each in its time."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count, islice
from pathlib import Path
from subprocess import PIPE, Popen
from urllib.parse import urlsplit

from scheduler.guard.program import PREFIX, VERB
from tests.controlplane.guarded import WEBHOOK, WEBHOOKS
from tests.controlplane.ours import Guard
from tests.controlplane.rest import RestClient
from tests.integration.guard.scene import a_claim, a_result, give, publish, refusal

ATTACKER = Path(__file__).with_name("attacker.py")
ALLOCATIONS = 15
PUBLIC = f"{PREFIX}/{VERB}"
WRONG = "0," * 300_000
"""Entries of a list that was once read to its end, each with an error of its own: 0.6 MB took seconds."""


def secret_path(api: RestClient) -> str:
    """What whoever may read the webhook knows."""
    url: str = api.get(WEBHOOKS, WEBHOOK)["webhooks"][0]["clientConfig"]["url"]
    return urlsplit(url).path


def a_head(path: str, length: int) -> bytes:
    return b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % (path.encode(), length)


def a_question(path: str) -> bytes:
    metadata = '"metadata":{"namespace":"a","name":"b","uid":"c","resourceVersion":"1"}'
    claim = f'{{"apiVersion":"resource.k8s.io/v1","kind":"ResourceClaim",{metadata}'
    new = f'{claim},"status":{{"allocation":{{"devices":{{"results":[{WRONG}0]}}}}}}}}'
    asked = f'{{"uid":"u","operation":"UPDATE","subResource":"status","object":{new},"oldObject":{claim}}}}}'
    body = f'{{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{asked}}}'.encode()
    return a_head(path, len(body)) + body


ATTACKS: dict[str, tuple[int, bool, Callable[[str], bytes]]] = {
    "connections that say nothing": (300, False, lambda _: b""),
    "handshakes that do not go on": (600, False, lambda _: b"\x16\x03\x01"),
    "connections without a call": (600, True, lambda _: b""),
    "bodies that do not come": (600, True, lambda _: a_head(PUBLIC, 10)),
    "bodies that do not come, of one who knows the path": (600, True, lambda secret: a_head(secret, 10 << 20)),
    "bodies full of errors": (8, True, lambda _: a_question(PUBLIC)),
    "bodies full of errors, of one who knows the path": (2, True, a_question),
}
"""How many connections, whether they shake hands, and what is sent over each."""


@contextmanager
def attacked(port: int, number: int, text: bytes, *, is_secure: bool) -> Iterator[None]:
    """So many connections on which the text was sent, each replaced when it is closed, while the context is open."""
    command: list[str | Path] = [sys.executable, ATTACKER, str(port), str(number), "tls" if is_secure else "plain"]
    with Popen(command, stdin=PIPE, stdout=PIPE) as attacker:
        assert attacker.stdin
        assert attacker.stdout
        try:
            attacker.stdin.write(text)
            attacker.stdin.close()
            assert attacker.stdout.readline() == b"begun\n"
            yield
            assert attacker.poll() is None
        finally:
            attacker.kill()


def test_allocations_go_on_during_every_attack(api: RestClient, guard: Guard) -> None:
    publish(api, *({"name": f"d{one}"} for one in range(ALLOCATIONS * len(ATTACKS))))
    devices = count()
    for number, is_secure, text_of in ATTACKS.values():
        claims = [(a_claim(api, f"claim-{one}"), f"d{one}") for one in islice(devices, ALLOCATIONS)]
        with attacked(guard.port, number, text_of(secret_path(api)), is_secure=is_secure):
            for claim, device in claims:
                give(api, claim, a_result(device))
    assert "is held by claim guarded/claim-0" in refusal(api, a_claim(api, "late"), a_result("d0"))
    assert "Traceback" not in guard.log.read_text()
