"""What `host setup` has a machine's shell do, in POSIX sh, sent on its stdin.

Each answer is one `fresnel:` line; what else a shell prints is passed over.
"""

BEGIN = "fresnel:"

FIND_PYTHON = """\
import sys
from glob import glob
from importlib.util import find_spec
needed = "textual rich watchfiles yaml psutil pynvml msgspec re2 argcomplete".split()
whole = all(find_spec(name) is not None for name in needed)
said = [sys.executable, ".".join(map(str, sys.version_info[:3])), "whole" if whole else ""]
def ask_torch():
    if not any(map(glob, ["/dev/nvidia*", "/dev/nvhost*", "/dev/kfd", "/dev/dxg"])):
        try:
            from importlib.metadata import version
            return [str(version("torch") or "") if find_spec("torch") else "", "0", ""]
        except ImportError:
            pass
    import torch
    try:
        seen = torch.cuda.device_count() if torch.cuda.is_available() else 0
        return [torch.__version__, str(seen), torch.cuda.get_device_name(0) if seen else ""]
    except Exception as error:
        return [torch.__version__, "0", first_line(error)]
def first_line(error):
    return (str(error).splitlines() or [type(error).__name__])[0]
try:
    said += ask_torch()
except Exception as error:
    said += ["", "0", "" if isinstance(error, ImportError) else first_line(error)]
print("fresnel:python=" + "\\t".join(said))
"""
"""The interpreter, its version, whether all we need is there, torch's version, how many GPUs torch
sees, and the first one's name (or why torch does not load).

Where no driver of a GPU is, torch is not loaded: that takes seconds, from a network disk minutes.
"""

PROBE = (
    """\
say() { printf 'fresnel:%s=%s\\n' "$1" "$2"; }
say home "$HOME"
say user "$(id -un)"
say system "$(uname -sm)"
say free_kb "$(df -Pk "$HOME" 2>/dev/null | awk 'NR==2{print $4}')"
command -v rsync >/dev/null 2>&1 && say rsync yes
command -v sbatch >/dev/null 2>&1 && say slurm yes
for uv in uv "$HOME/.local/bin/uv" "$HOME/.cargo/bin/uv"; do
    found=$(command -v "$uv" 2>/dev/null) && { say uv "$found"; break; }
done
if command -v nvidia-smi >/dev/null 2>&1; then
    say nvidia "$(nvidia-smi -L 2>/dev/null | grep -c '^GPU ')"
fi
amd=0
for node in /sys/class/kfd/kfd/topology/nodes/*/gpu_id; do
    [ -r "$node" ] && [ "$(cat "$node")" != 0 ] && amd=$((amd + 1))
done
[ "$amd" -gt 0 ] && say amd "$amd"
command -v loginctl >/dev/null 2>&1 && say linger "$(loginctl show-user "$(id -un)" \
    -p Linger --value 2>/dev/null)"
login=$(bash -lc 'command -v python3; command -v python' </dev/null 2>/dev/null)
tried=
others="python3.13 python3.12 python3.11 python3.10 python3 python $login
    /opt/venv/bin/python /opt/conda/bin/python /venv/main/bin/python $HOME/miniconda3/bin/python
    $HOME/.venv/bin/python"
[ -n "$CHOSEN" ] && command -v "$CHOSEN" >/dev/null 2>&1 && others=
for python in "$CHOSEN" $others; do
    path=$(command -v "$python" 2>/dev/null) || continue
    case " $tried " in *" $path "*) continue ;; esac
    tried="$tried $path"
    "$path" - <<'PYTHON' 2>/dev/null
"""
    + FIND_PYTHON
    + """\
PYTHON
done
say done yes
"""
)

INSTALL = (
    """\
set -e
say() { printf 'fresnel:%s=%s\\n' "$1" "$2"; }
base="$HOME/.local/share/fresnel-tui"
source="$base/source-$DIGEST"
mkdir -p "$base/bin" "$HOME/.local/bin"
[ -e "$FOLDER" ] || { mkdir -p "$FOLDER"; : >"$FOLDER/.fresnel-made"; }
mkdir -p "$FOLDER/presets"
[ -f "$source/installed.digest" ] || { say problem 'the source did not arrive'; exit 1; }
if [ "$AS_IT_IS" = yes ]; then
    python=$PYTHON
else
    environment="$base/venv-$(printf %s "$PYTHON" | cksum | cut -d' ' -f1)"
    python="$environment/bin/python"
    pip="$python -m pip install --disable-pip-version-check --quiet"
    if ! "$python" -c '' 2>/dev/null; then
        rm -rf "$environment"
        if [ -n "$UV" ] && [ "$PYTHON" = uv ]; then
            "$UV" venv --quiet --python 3.12 "$environment"
        elif ! "$PYTHON" -m venv --system-site-packages "$environment" >/dev/null 2>&1; then
            rm -rf "$environment"
            if [ -n "$UV" ]; then
                "$UV" venv --quiet --system-site-packages --python "$PYTHON" "$environment"
            else
                "$PYTHON" -m venv --without-pip --system-site-packages "$environment"
            fi
        fi
    fi
    # Made from an image's environment, it would see the system's packages instead of that one's.
    "$PYTHON" -c 'import site, sys
if sys.prefix != sys.base_prefix: print(*site.getsitepackages(), sep="\\n")' 2>/dev/null |
        "$python" -c 'import site, sys
lines = sys.stdin.read()
if lines: open(site.getsitepackages()[0] + "/fresnel-image.pth", "w").write(lines)' || true
    if ! "$python" -c 'import pip' 2>/dev/null; then
        if [ -n "$UV" ]; then
            pip="$UV pip install --quiet --python $python"
        else
            pip="$PYTHON -m pip --python $python install --disable-pip-version-check --quiet"
        fi
    fi
    torch=$("$python" -c 'try:
    from importlib.metadata import version
    print("torch==" + version("torch"))
except ImportError:
    import torch
    print("torch==" + torch.__version__)' 2>/dev/null || true)
    printf '%s\\n' "$torch" >"$environment/constraints.txt"
    printf '%s\\n' "$NEEDED" >"$environment/requirements.txt"
    say step 'installing what it needs'
    if [ -n "$TORCH_INDEX" ] && [ -z "$torch" ]; then
        PIP_INDEX_URL=$TORCH_INDEX UV_INDEX_URL=$TORCH_INDEX $pip torch >&2 || return 1
    fi
    $pip -r "$environment/requirements.txt" -c "$environment/constraints.txt" >&2 || return 1
fi
rm -f "$base/source.new"
ln -s "source-$DIGEST" "$base/source.new"
mv -T "$base/source.new" "$base/source" 2>/dev/null || \\
    { rm -f "$base/source"; mv "$base/source.new" "$base/source"; }
chosen=$PYTHON
[ "$PYTHON" != uv ] || chosen=
cat >"$base/bin/fresnel-tui.new" <<LAUNCHER
#!/bin/sh
export FRESNEL_PYTHON="$chosen"
exec "$python" -c 'import sys; sys.path[0] = "$source"
from tui.__main__ import main
main()' "\\$@"
LAUNCHER
chmod 755 "$base/bin/fresnel-tui.new"
mv "$base/bin/fresnel-tui.new" "$base/bin/fresnel-tui"
mine="$HOME/.local/bin/fresnel-tui"
[ -e "$mine" ] || ln -s "$base/bin/fresnel-tui" "$mine"
say launcher "$base/bin/fresnel-tui"
say folder "$(cd "$FOLDER" && pwd -P)"
if command -v loginctl >/dev/null 2>&1; then
    loginctl enable-linger >/dev/null 2>&1 && say linger yes || true
fi
[ "$AS_IT_IS" = yes ] || "$python" - <<'PYTHON'
"""
    + FIND_PYTHON
    + """\
PYTHON
say done yes
"""
)

BRING_UV = """\
for python in python3 python; do
    command -v "$python" >/dev/null 2>&1 || continue
    "$python" -m pip install --user --quiet --disable-pip-version-check uv >&2 && break
done
[ -x "$HOME/.local/bin/uv" ] && printf 'fresnel:uv=%s\\n' "$HOME/.local/bin/uv"
printf 'fresnel:done=yes\\n'
"""
