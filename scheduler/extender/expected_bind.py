"""After filter, the call of bind: the next call of filter waits for it.

kube-scheduler lets a pod be bound while it asks about the next one, and the two calls come on two connections, in any
order. Without the devices of the pod before, filter would pass a node that has none left, and bind would refuse it.
"""

import asyncio

from scheduler.core_v1.pod import Pod

EXPECTED_S = 0.1
"""For so long bind is waited for at most. It does not come where another plugin of kube-scheduler holds the pod."""


class ExpectedBind:
    """The pod that passed filter last, until its devices are reserved. expected_s: for so long at most.

    Once a call has not come in time, none is expected until another one comes.
    """

    def __init__(self, expected_s: float = EXPECTED_S) -> None:
        self._expected_s = expected_s
        self._do_come = False
        self._pod_uid = ""
        self._came: asyncio.Future[None] | None = None

    def passed(self, pod: Pod) -> None:
        """Some node has passed for the pod. Where its volumes may have to be bound before, bind is not expected."""
        self._end()
        if self._do_come and not pod.volumes.claims:
            self._pod_uid, self._came = pod.uid, asyncio.get_running_loop().create_future()

    def came(self, pod_uid: str) -> None:
        """Bind has come for the pod, and its devices are reserved, or it is refused."""
        self._do_come = True
        if pod_uid == self._pod_uid:
            self._end()

    async def before(self, pod: Pod) -> None:
        """Wait before filter answers about the pod."""
        if self._came is None or pod.uid == self._pod_uid:
            return
        timer = asyncio.get_running_loop().call_later(self._expected_s, self._give_up)
        try:
            await asyncio.shield(self._came)
        finally:
            timer.cancel()

    def _give_up(self) -> None:
        self._do_come = False
        self._end()

    def _end(self) -> None:
        if self._came is not None:
            self._came.set_result(None)
            self._came = None
