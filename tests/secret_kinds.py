"""Secrets of every kind that people put into presets and commands, to be planted and looked for."""

from typing import NamedTuple


class Secret(NamedTuple):
    """`value` stands under `name`; `bare` is the part of it that nobody else may see."""

    name: str
    value: str
    bare: str


_NAMES = (
    *("WANDB_API_KEY", "HF_TOKEN", "DB_PASSWORD", "DB_PASSWD", "DB_PASS", "MYSQL_PWD", "GH_PAT"),
    *("SSH_PASSPHRASE", "SESSION_COOKIE", "JWT", "BEARER", "AWS_SECRET_ACCESS_KEY", "SENTRY_DSN"),
    *("MY_CREDENTIALS", "PRIVATE_PEM", "SIGNING_SALT", "X_AUTH", "TEAM_WEBHOOK", "URL_SIG"),
    *("api_key", "apiKey", "accessToken", "PGPASSWORD", "client-secret", "LOGIN_OTP", "AUTH"),
)
# `{}` is the secret; the name tells nothing.
_LOOKS = {
    "database": "postgres://anna:{}@db.example/train",
    "broker": "redis://:{}@queue.example:6379/0",
    "packages": "https://{}@pypi.example/simple",
    "slack": "https://hooks.slack.com/services/T0AB/B0CD/{}",
    "discord": "https://discord.com/api/webhooks/12345/{}",
    "telegram": "https://api.telegram.org/bot12345:{}/sendMessage",
    "blob": "https://x.blob.core.example/y?sv=2022&sig={}&se=2030",
    "bucket": "https://s3.example/b?X-Amz-Signature={}&X-Amz-Expires=60",
    "header": "Authorization: Bearer {}",
    "basic": "Authorization: Basic {}",
    "cookies": "Cookie: theme=dark; sid={}",
    "custom": "X-Api-Key: {}",
    "connection": "Server=db;User=anna;Password={};Encrypt=yes",
    "storage": "AccountName=x;AccountKey={};EndpointSuffix=core",
    "document": '{{"user": "anna", "api_key": "{}"}}',
    "github": "ghp_{}0123456789",
    "github_fine": "github_pat_{}_0123456789",
    "gitlab": "glpat-{}0123456789",
    "hugging": "hf_{}0123456789",
    "openai": "sk-{}0123456789",
    "stripe": "sk_live_{}0123456789",
    "slack_bot": "xoxb-12345-{}",
    "google": "AIza{}01234567890123456789",
    "signed": "eyJhbGciOi.{}.c2lnbmF0dXJl",
    "amazon": "AKIA{}ABCDEFGH",
    "wandb": "wandb login 0123456789abcdef0123456789abcdef012345{:02d}",
}


def secrets_of(place: int) -> list[Secret]:
    """One secret of every kind; those of two places have nothing in common."""
    found = []
    for number, name in enumerate(_NAMES):
        bare = f"SEKRET{place:02d}N{number:02d}"
        found.append(Secret(name, bare, bare))
    for number, (name, template) in enumerate(_LOOKS.items()):
        if name == "wandb":
            value = template.format(place)
            found.append(Secret(name, value, value.split()[-1]))
        else:
            bare = f"SEKRET{place:02d}V{number:02d}"
            found.append(Secret(name, template.format(bare), bare))
    return found


KINDS = len(_NAMES) + len(_LOOKS)
