"""An HTTP server in a thread of its own, for those who stand in for the extender or between it and kube-scheduler."""

import threading
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self

Answer = Callable[[str, bytes], tuple[int, bytes] | None]
"""From the last part of a path and a body to status and body; None: the connection is closed without an answer."""


class Listener:
    """Answers each POST while its context is open, on a free port of the loopback interface."""

    def __init__(self, answer: Answer) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(answer))
        self._thread = threading.Thread(target=self._server.serve_forever, name=type(self).__name__)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def url(self) -> str:
        """What goes before the verb and its slash."""
        return f"http://127.0.0.1:{self._server.server_port}/v1"


def _handler(answer: Answer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            found = answer(self.path.rpartition("/")[2], body)
            if found is None:
                self.close_connection = True
                return
            status, reported = found
            self.send_response(status)
            self.send_header("Content-Length", str(len(reported)))
            with suppress(ConnectionError):  # who asked may have gone
                self.end_headers()
                self.wfile.write(reported)

        def log_message(self, *_: object) -> None:
            """Nothing to the terminal."""

    return Handler
