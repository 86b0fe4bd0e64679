"""Who is let in: textual-serve asks nobody, and the panel can launch any command.

Every request needs the token that was printed once, as part of the first address and as a cookie
from then on: other users of this machine do not have it. The Host must be a name of ours, so that
a page cannot come through a name of its own that it has pointed here; and a websocket must come
from our own page, because browsers let any page open one.
"""

import secrets
from collections.abc import Awaitable, Callable
from ipaddress import ip_address
from urllib.parse import urlsplit

from aiohttp import web
from aiohttp.typedefs import Middleware

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]

# The page brings all it needs; nothing is fetched from anywhere else, and no other page may frame
# it.
_HEADERS = {
    "Content-Security-Policy": "default-src 'self'; script-src 'self' 'unsafe-inline'; "
    "style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self' data:; "
    "connect-src 'self' ws://{host}; frame-ancestors 'none'",
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
# Not a redirect: after one, a link in somebody's mail would count as theirs and the cookie would
# stay behind.
_WELCOME = (
    '<!doctype html><title>fresnel-tui</title><meta http-equiv="refresh" content="0; url={place}">'
)


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches what listens on `host`, a name or an address."""
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


class TokenAuth:
    """The checks in front of every route; `names` are this machine's besides its addresses."""

    def __init__(self, token: str, names: frozenset[str], port: int, loopback_only: bool) -> None:
        self._token = token.encode()
        self._names = names
        self._cookie = f"fresnel-tui-{port}"
        self._loopback_only = loopback_only
        # Cookies know no ports: a server of another user of this machine, once visited, would be
        # sent ours. But they know paths, and nobody else knows this one.
        self.place = f"/{secrets.token_urlsafe(16)}/"

    @property
    def middleware(self) -> Middleware:
        """For aiohttp, in front of every route."""

        @web.middleware
        async def check(request: web.Request, handler: Answer) -> web.StreamResponse:
            if not self._is_ours(request.host):
                raise _refused("the Host header does not name this server")
            if "token" in request.query:
                return self._welcome(request)
            if not self._fits(request.cookies.get(self._cookie, "")):
                raise _refused("open the address that `fresnel-tui serve` printed, with its token")
            if "upgrade" in request.headers.get("Connection", "").lower() and not _is_own_page(
                request
            ):
                raise _refused("a page from another origin may not control the panel")
            return await handler(request)

        return check

    async def add_security_headers(
        self, request: web.Request, response: web.StreamResponse
    ) -> None:
        """Add what keeps browsers careful to every response."""
        for name, value in _HEADERS.items():
            response.headers[name] = value.replace(
                "{host}", request.host if self._is_ours(request.host) else ""
            )

    def _is_ours(self, host: str) -> bool:
        """Whether the Host header names us; through `ssh -L` its port may be any."""
        try:
            name = (urlsplit(f"//{host}").hostname or "").lower()
        except ValueError:  # half an address: `[::1`
            return False
        if name in self._names or is_loopback(name):
            return True
        try:
            # Nobody can point an address somewhere else, as names can be.
            return not self._loopback_only and bool(ip_address(name))
        except ValueError:
            return False

    def _fits(self, token: str) -> bool:
        return secrets.compare_digest(token.encode("utf-8", "replace"), self._token)

    def _welcome(self, request: web.Request) -> web.StreamResponse:
        """Take the token out of the address and give it as a cookie."""
        if not self._fits(request.query["token"]):
            raise _refused("the token is not this server's, or no longer valid")
        page = _WELCOME.replace("{place}", self.place)
        response = web.Response(text=page, content_type="text/html")
        response.set_cookie(
            self._cookie, self._token.decode(), httponly=True, samesite="Strict", path=self.place
        )
        return response


def _is_own_page(request: web.Request) -> bool:
    """Whether the Origin, which browsers send with every websocket, is the host that was asked."""
    try:
        origin = urlsplit(request.headers.get("Origin", ""))
    except ValueError:
        return False
    return origin.netloc.lower() == request.host.lower()


def _refused(why: str) -> web.HTTPForbidden:
    return web.HTTPForbidden(text=f"fresnel-tui: {why}\n")
