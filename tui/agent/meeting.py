"""Whether two machines reach each other, tried on the port that they are to meet at."""

import asyncio
import socket

import psutil

from runners.host.identity import host_name
from runners.model.errors import DeniedError
from tui.agent.exchange import Exchange

_PATIENCE_S = 120.0
_TRY_S = 3.0
# Bridges and pairs of containers and virtual machines: no other machine reaches their addresses.
_NOT_FOR_OTHERS = ("docker", "virbr", "br-", "veth", "lo")
# By it our own listener is told from another program that holds the port.
_WORD = b"fresnel-tui was here\n"


async def listen(exchange: Exchange) -> None:
    """Listen on the port until cancelled; send this machine's addresses. DeniedError if taken.

    0 is a port that is free; which, is sent too.
    """
    port = int(exchange.fields["port"]) or _free_port()

    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(_WORD)
        await writer.drain()
        writer.close()

    try:
        # On all addresses: which of them the others reach is what is to be found out.
        server = await asyncio.start_server(answer, "", port)
    except OSError as error:
        raise DeniedError(
            f"{host_name()}: port {port} cannot be used: {error.strerror}",
            "choose another with --master-port",
        ) from None
    try:
        await exchange.send({"listening": own_addresses(), "port": port})
        await asyncio.sleep(_PATIENCE_S)
    finally:
        server.close()


def _free_port() -> int:
    """A port that nobody has on any of this machine's addresses, as the kernel gives them."""
    with socket.socket() as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])


async def reach(exchange: Exchange) -> None:
    """Send the first of the addresses where somebody listens, and why not the others."""
    problems = []
    for address in exchange.fields["addresses"]:
        try:
            reader, writer = await asyncio.wait_for(
                asyncio.open_connection(address, int(exchange.fields["port"])), _TRY_S
            )
            word = await asyncio.wait_for(reader.read(len(_WORD)), _TRY_S)
            writer.close()
        except asyncio.TimeoutError:
            problems.append(f"{address}: no answer within {_TRY_S:.0f} s")
            continue
        except OSError as error:
            problems.append(f"{address}: {error.strerror or error}")
            continue
        if word == _WORD:
            await exchange.answer({"reached": address})
            return
        problems.append(f"{address}: another program listens on that port")
    await exchange.answer({"reached": None, "why": "; ".join(problems)})


def own_addresses() -> list[str]:
    """The addresses by which others may reach this machine; only if it has none, its own."""
    up = psutil.net_if_stats()
    found = [
        address.address
        for name, addresses in psutil.net_if_addrs().items()
        if not name.startswith(_NOT_FOR_OTHERS) and name in up and up[name].isup
        for address in addresses
        if address.family == socket.AF_INET
    ]
    return found or ["127.0.0.1"]
