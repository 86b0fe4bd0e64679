"""Started in the place of a program, it has the tests' warm server fork that, and ends as it does.

`warm_client.py ADDRESS WORDS…`: what `python WORDS…` would do, for who can start nothing but a
file: sshd. It imports next to nothing, for it is paid at every start.
"""

import os
import sys
from _json import encode_basestring_ascii as quoted
from _signal import SIG_BLOCK, SIG_DFL, SIG_IGN, SIG_UNBLOCK, getsignal, pthread_sigmask, signal
from _socket import AF_UNIX, SCM_RIGHTS, SO_SNDBUF, SOCK_SEQPACKET, SOL_SOCKET, socket, socketpair

_REQUEST_BYTES = 1 << 18
_ENDING = (1, 2, 3, 15)


def main(address: str, words: list[str]) -> None:
    """Have it forked; where there is no server, or a terminal, become an interpreter of its own."""
    argv = [sys.executable, *words]
    control = socket(AF_UNIX, SOCK_SEQPACKET)
    control.setsockopt(SOL_SOCKET, SO_SNDBUF, _REQUEST_BYTES)
    try:
        if os.isatty(0):
            raise ConnectionError
        control.connect(f"\0{address}")
        if not control.recv(32):
            raise ConnectionError
    except ConnectionError:
        os.execv(sys.executable, argv)
    told, theirs = socketpair(AF_UNIX, SOCK_SEQPACKET)
    given = b"".join(fd.to_bytes(4, sys.byteorder) for fd in (0, 1, 2, theirs.fileno()))
    # From now on there is a program that they are for.
    pthread_sigmask(SIG_BLOCK, _ENDING)
    control.sendmsg([_request(address, argv).encode()], [(SOL_SOCKET, SCM_RIGHTS, given)])
    theirs.close()
    pid = int(told.recv(32))
    control.close()
    for number in _ENDING:
        if getsignal(number) is not SIG_IGN:
            signal(number, lambda number, _: _pass_on(pid, number))
    pthread_sigmask(SIG_UNBLOCK, _ENDING)
    # Nobody shall wait for the end of these but for the program's own.
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    # Twice: Linux may say that the other side has closed though it sent just before.
    code = os.waitstatus_to_exitcode(int(told.recv(32) or told.recv(32) or b"9"))
    if code < 0:
        if -code != 9:
            signal(-code, SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


def _pass_on(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:  # it has ended, which is about to be told
        pass


def _request(address: str, argv: list[str]) -> str:
    """What `tests/warm.py` asks a server, in JSON."""
    umask = os.umask(0)
    os.umask(umask)
    environment = ",".join(f"{quoted(k)}:{quoted(v)}" for k, v in os.environ.items())
    folder = os.getcwd()  # noqa: PTH109
    ignored = [number for number in _ENDING if getsignal(number) is SIG_IGN]
    return (
        f'{{"address":{quoted(address)},"argv":[{",".join(map(quoted, argv))}],"environment":{{{environment}}},'
        f'"folder":{quoted(folder)},"session":true,"terminal":false,"umask":{umask},'
        f'"ignored":{ignored},"forks":false}}'
    )


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
