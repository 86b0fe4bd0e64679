"""What is a secret, by its name or by its look, and how it is written and shown: as MASK.

Everything that is written or shown goes through here. A false alarm costs a reader a value, and a
program nothing: it gets the real ones, see `kept_secrets`.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import chain

from runners.model.kept_secrets import MASK
from runners.model.late_pattern import late_pattern
from runners.model.placeholders import secrets_in, variables_in

_CAMEL = late_pattern(r"(?<=[a-z0-9])(?=[A-Z])")
_PARTS = late_pattern(r"[^A-Za-z0-9]+")
_SECRET_PARTS = (
    *("AUTH", "AUTHENTICATION", "AUTHORIZATION", "BEARER", "CONNSTR", "CRED", "CREDS", "DSN"),
    *("HMAC", "JWT", "KEY", "KEYS", "OAUTH", "OAUTH2", "OTP", "PASS", "PASSCODE", "PASSKEY"),
    *("PAT", "PATS", "PEM", "PW", "PWD", "SALT", "SAS", "SESSID", "SESSIONID", "SIG"),
    *("SIGNATURE", "TOTP"),
)
_SECRET_INSIDE = late_pattern(r"PASSWO?R?D|PASSPHRASE|SECRET|CREDENTIAL|APIKEY|COOKIE|WEBHOOK")
_SECRET_ENDS = ("TOKEN", "TOKENS", "SSHKEY", "ACCESSKEY", "PRIVATEKEY", "ACCOUNTKEY")
_PASSWORD_NAME = late_pattern(r"PASS|PWD|PW\b|SECRET", re.IGNORECASE)
# 512, 1e-4, 300B: what `max_tokens` or `key_size` counts.
_NUMBER = late_pattern(r"[-+]?[\d_.,]*\d(?:e[-+]?\d+)?[kmbgt]?", re.IGNORECASE)
_RAISED = ("Error", "Exception", "Warning")
"""How names of exceptions end: what follows one says what went wrong (`KeyError: 'image_size'`)."""
_SHORT_NUMBER = 6
# The last stands for a value in our own advice.
_NO_VALUES = ("none", "null", "true", "false", "…")


@lru_cache(4096)  # outputs have names without end
def is_secret_name(name: str) -> bool:
    """Whether what has this name (a variable, a parameter, a flag, a key) is a secret.

    Names are judged by their parts: PASS and DB_PASS are secrets, PASSES and COMPASS are none.
    """
    if name in ("PWD", "OLDPWD"):  # where a shell stands
        return False
    parts = _PARTS.split(_CAMEL.sub("_", name))
    if parts[-1] in _RAISED:
        return False
    return any(_is_secret_part(part.upper()) for part in parts if part)


def _is_secret_part(part: str) -> bool:
    return part in _SECRET_PARTS or part.endswith(_SECRET_ENDS) or bool(_SECRET_INSIDE.search(part))


def _is_plain(name: str, value: str) -> bool:
    """A value that is no secret under any name: none at all, a count, a reference to another."""
    if not value or value.startswith("$") or value.lower() in _NO_VALUES:
        return True
    if not _NUMBER.fullmatch(value) or _PASSWORD_NAME.search(name):
        return False
    return len(value) < _SHORT_NUMBER or "tokens" in name.lower()


def mask_value(name: str, value: str) -> str:
    """`value` of the variable or key `name`, masked: the whole of it when the name is a secret's.

    A value that only refers to others, as `${HF_TOKEN}`, has nothing to be masked.
    """
    if is_secret_name(name) and not _is_plain(name, value):
        return MASK
    return mask_text(value)


def secret_reference(text: str) -> str:
    """The name of a secret that a `${...}` in `text` stands for; empty without one.

    A variable is one by its name; what is kept as a secret is one under any.
    """
    kept = (f"secrets.{name}" for name in secrets_in(text))
    return next(chain(kept, filter(is_secret_name, variables_in(text))), "")


# ── texts ─────────────────────────────────────────────────────────────────────────────────────────

_NAMED = r"[A-Za-z_][\w.-]*"
_PRIVATE_KEY = late_pattern(
    r"(-----BEGIN [A-Z0-9 ]*PRIVATE KEY[A-Z ]*-----).*?(?=-----END|\Z)", re.DOTALL
)
_HEADER = late_pattern(
    r"""(\b(?:(?:proxy-)?authorization|(?:set-)?cookie)["']?\s*:\s*["']?)([^"'\r\n]+)""",
    re.IGNORECASE,
)
_BEARER = late_pattern(r"(\b(?:bearer|basic)\s+)([\w.~+/=:-]{6,})", re.IGNORECASE)
_USERINFO = late_pattern(r"(://[^/\s:@\"']*:)([^/\s\"']+)(?=@)")
_URL_USER = late_pattern(r"(https?://)([^/\s:@\"'?#]+)(?=@)", re.IGNORECASE)
_HOOK = late_pattern(
    r"(https?://(?:[^/\s\"']*hook[^/\s\"']*/|[^\s\"']{0,1000}?/(?:api/)?(?:web)?hooks?/|ntfy\.sh/|"
    r"hc-ping\.com/|maker\.ifttt\.com/|api\.telegram\.org/bot|outlook\.office\.com/))"
    r"([^\s\"']+)",
    re.IGNORECASE,
)
_KNOWN_TOKEN = late_pattern(
    r"(?<![A-Za-z0-9_])(?:gh[pousr]_\w{8,}|github_pat_\w{8,}|glpat-[\w-]{8,}|hf_\w{8,}|"
    r"sk-[\w-]{8,}|[sr]k_(?:live|test)_\w{8,}|xox[a-z]-[\w-]{8,}|xapp-[\w-]{8,}|"
    r"(?:AKIA|ASIA)[A-Z0-9]{12,}|AIza[\w-]{20,}|ya29\.[\w.-]{8,}|npm_\w{20,}|pypi-[\w-]{16,}|"
    r"dop_v1_\w{16,}|SG\.[\w-]{8,100}\.[\w-]{8,}|shp[a-z]{2}_\w{16,}|nvapi-[\w-]{12,}|"
    r"r8_\w{16,}|gsk_\w{16,}|xai-\w{16,}|dckr_pat_[\w-]{8,}|tskey-[\w-]{12,}|"
    r"AGE-SECRET-KEY-1\w{16,}|eyJ[\w-]{6,4000}\.[\w-]{6,}(?:\.[\w-]*)?)"
)
_LOGIN = late_pattern(r"(\blogin\s+(?:--?[\w-]+\s+)*)([0-9a-f]{40})\b")
# In a sentence (`--token abc: expected …`) the colon is no part of the value.
_FLAG = late_pattern(
    rf"""(?<!\S)(--?({_NAMED})\s+)("[^"]*"|'[^']*'|[^\s"'-][^\s"']*?(?=:?(?:[\s"']|\Z)))"""
)
# JSON within JSON has backslashes before its quotes.
# The name is taken whole, and no longer than any is: a line of `a-b-c-…` would take minutes.
_ASSIGNED = late_pattern(
    r"""(?<![\w$])(?=([A-Za-z_][\w.-]{0,127}))\1"""
    r"""(?:\\*["']?\s*(?:=|:(?=\s|["']))\s*|\\*["']\s*:\s*)(?:\\+(?=["']))?"""
)
# Of several values behind commas each is one; what has a name of its own is not.
_VALUE = late_pattern(
    r"""("[^"]*"|'[^']*'|[^\s"'&;,=(\[{][^\s"'&;,]*(?:,[^\s"'&;,=:)\]}]+(?![^\s"'&;,]*[=:]))*)"""
)
_CODE = late_pattern(r"lambda\b|self\b|[\w.]+\(|None\b|True\b|False\b|null\b")


def mask_private_keys(text: str) -> str:
    """`text` without the private keys in it, which have several lines each."""
    return _PRIVATE_KEY.sub(rf"\1{MASK}", text)


def mask_text(text: str) -> str:
    """`text` with everything masked that looks like a secret."""
    text = mask_private_keys(text)
    for pattern in (_HEADER, _BEARER, _USERINFO, _URL_USER, _HOOK, _LOGIN):
        text = pattern.sub(_kept_head, text)
    text = _KNOWN_TOKEN.sub(MASK, text)
    text = _FLAG.sub(lambda flag: flag[1] + _masked_value(flag[2], flag[3]), text)
    return _mask_assigned(text)


def _mask_assigned(text: str) -> str:
    parts, done = [], 0
    for head in _ASSIGNED.finditer(text):
        # The value of a secret may look like another one; that of anything else may contain one.
        if head.start() < done or not is_secret_name(head[1]):
            continue
        if value := _VALUE.match(text, head.end()):
            parts += [text[done : head.end()], _masked_value(head[1], value[1])]
            done = value.end()
    return "".join([*parts, text[done:]])


def _kept_head(match: re.Match[str]) -> str:
    secret = match[2]
    return match[0] if secret.startswith(("$", MASK)) else f"{match[1]}{MASK}"


def _masked_value(name: str, value: str) -> str:
    quote = value[0] if value[0] in "\"'" else ""
    bare = value.strip(quote) if quote else value
    is_code = not quote and bool(_CODE.match(value))
    # `key` alone is a word of every program: `sorted(x, key=len)`.
    if name == "key" or is_code or not is_secret_name(name) or _is_plain(name, bare):
        return value
    return f"{quote}{MASK}{quote}"


# ── command lines ─────────────────────────────────────────────────────────────────────────────────

_WHOLE_ASSIGNMENT = late_pattern(rf"(-{{0,2}}({_NAMED})=)(.*)", re.DOTALL)
_WHOLE_FLAG = late_pattern(rf"--?({_NAMED})")
_USER_FLAGS = ("-u", "--user", "--proxy-user")
_WHOLE_LOGIN = late_pattern(r"[0-9a-f]{40}|[\w-]{20,}")


def mask_arguments(arguments: Sequence[str]) -> list[str]:
    """The words of a command line with their secrets masked."""
    masked: list[str] = []
    before = ""
    for word in arguments:
        masked.append(_mask_argument(before, word))
        before = word
    return masked


def _mask_argument(before: str, word: str) -> str:
    flag = _WHOLE_FLAG.fullmatch(before)
    if flag and is_secret_name(flag[1]) and not word.startswith("--"):
        return word if _is_plain(flag[1], word) else MASK
    if before in _USER_FLAGS and ":" in word:
        return f"{word.partition(':')[0]}:{MASK}"
    if before == "login" and _WHOLE_LOGIN.fullmatch(word):
        return MASK
    assigned = _WHOLE_ASSIGNMENT.fullmatch(word)
    if assigned and is_secret_name(assigned[2]) and assigned[1] != "key=":
        return word if _is_plain(assigned[2], assigned[3]) else f"{assigned[1]}{MASK}"
    return mask_text(word)
