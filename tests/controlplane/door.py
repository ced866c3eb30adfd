"""What stands in for the guard's Service: a way from the API server to one of several guards, which a test may block.

It passes bytes on and does not read them: who speaks TLS are the API server and the guard.
"""

import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Event, Lock, Thread

_CHUNK = 1 << 16


class Door:
    """Connections to `port` of this machine lead to `target`, as it is when they are opened; 0: they are refused.

    `is_closed`: so they are while that is so.
    """

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.target = 0
        self.is_closed = False
        self._open: set[socket.socket] = set()
        self._lock = Lock()
        self._answers = Event()
        self._answers.set()
        self.was_held = Event()

    def lead_to(self, target: int) -> None:
        """New connections lead there from now on, and those that are open end."""
        self.target = target
        self.cut()

    def close_to(self, *, is_closed: bool) -> None:
        """Refuse connections, and end those that are open; or let them through again."""
        self.is_closed = is_closed
        self.cut()

    def hold_answers(self) -> None:
        """Let questions pass and keep what is answered from now on; `was_held` is set once there is something."""
        self.was_held.clear()
        self._answers.clear()

    def let_answers_pass(self) -> None:
        """Let what was kept pass."""
        self._answers.set()

    def cut(self) -> None:
        """End the open connections."""
        with self._lock:
            for one in self._open:
                with suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """End everything."""
        self.let_answers_pass()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()

    def serve(self) -> None:
        """Let connections through until closed."""
        while True:
            try:
                client, _ = self._listener.accept()
                guard = socket.create_connection(("127.0.0.1", 0 if self.is_closed else self.target))
            except OSError:
                if self._listener.fileno() < 0:
                    return
                with suppress(OSError, UnboundLocalError):
                    client.close()
                continue
            with self._lock:
                self._open |= {client, guard}
            Thread(target=self._pass, args=(client, guard), kwargs={"is_answer": False}, daemon=True).start()
            Thread(target=self._pass, args=(guard, client), kwargs={"is_answer": True}, daemon=True).start()

    def _pass(self, source: socket.socket, sink: socket.socket, *, is_answer: bool) -> None:
        with suppress(OSError):
            while chunk := source.recv(_CHUNK):
                if is_answer and not self._answers.is_set():
                    self.was_held.set()
                    self._answers.wait()
                sink.sendall(chunk)
        for one in (source, sink):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        with self._lock:
            self._open -= {source}
        source.close()


@contextmanager
def door() -> Iterator[Door]:
    """A door while the context is open."""
    opened = Door()
    thread = Thread(target=opened.serve, daemon=True)
    thread.start()
    try:
        yield opened
    finally:
        opened.close()
        thread.join()
