"""TLS sockets that a client's threads may use at once."""

import select
import ssl
import threading


class SharedSocket(ssl.SSLSocket):
    """One thread receives while another one sends, as the client of `websockets` does.

    A TLS session is not made for that. Before Python 3.13 nothing prevents it: what is written while a message of the handshake, such as a
    session ticket, is being read can be lost. Here the two take turns, and wait for the network outside of them.
    """

    def _take_turns(self, call, *arguments):
        lock = self.__dict__.setdefault("_turns", threading.Lock())
        while True:
            with lock:
                self.settimeout(0)
                try:
                    return call(*arguments)
                except ssl.SSLWantReadError:
                    events = select.POLLIN
                except ssl.SSLWantWriteError:
                    events = select.POLLOUT
            waiting = select.poll()
            waiting.register(self.fileno(), events)
            waiting.poll()

    def recv(self, *arguments):
        return self._take_turns(super().recv, *arguments)

    def send(self, *arguments):
        return self._take_turns(super().send, *arguments)


def trusting(certificate):
    """A context that trusts this certificate, for any client of the tests."""
    context = ssl.create_default_context(cafile=str(certificate))
    context.sslsocket_class = SharedSocket
    return context
