"""Whether a checkpoint is whole, by what its format writes last. Standard library only.

Facts: a zip file (torch.save since 1.6, Keras, NumPy's npz) ends with its central
directory (PKWARE APPNOTE 4.3). A safetensors file begins with the length of a JSON
header that says where its tensors end. An HDF5 superblock holds the end-of-file
address (HDF5 File Format Specification 3.0, II.A). Hugging Face's Trainer writes
`trainer_state.json` after everything else of a checkpoint, and
torch.distributed.checkpoint writes `.metadata` last.
"""

import json
import os
import struct
from collections.abc import Sequence

from runners.host.bounded_glob import SearchBudget, files_below
from runners.host.files import open_binary, read_plain

_END = struct.Struct("<4s4H2LH")
_COMMENT = 65_535
_LONGEST_HEADER = 100 << 20
_WHOLE_64 = 0xFFFFFFFF
_NO_HEADER = (
    ValueError, KeyError, TypeError, IndexError, AttributeError, ArithmeticError, RecursionError
)  # fmt: skip
"""What JSON that is no header of safetensors raises when it is read as one."""
_SUPERBLOCKS = {0: (13, 24), 1: (13, 28), 2: (9, 12), 3: (9, 12)}
"""By an HDF5 superblock's version: where an address's width stands, and the first address.

Version 1 has four bytes more before its addresses than version 0: the rank of B-trees for chunks.
"""


def proof(path: str) -> bool | None:
    """Whether a file or folder is whole, None if its format cannot tell. Raises OSError."""
    if os.path.isdir(path):
        return _folder_proof(path)
    with open_binary(path) as file:
        size = os.fstat(file.fileno()).st_size
        start = file.read(64)
        if not start:
            return False
        if start[:4] == b"PK\x03\x04":
            # The end record is followed by a comment of at most 64 KiB: it begins in this piece.
            file.seek(max(0, size - _COMMENT - _END.size))
            return _zip_proof(file.read(), size)
        if path.endswith(".safetensors"):
            return _safetensors_proof(start, size, path)
        if start[:8] == b"\x89HDF\r\n\x1a\n":
            return _hdf5_proof(start, size)
    return None


def _zip_proof(end: bytes, size: int) -> bool:
    at = end.rfind(b"PK\x05\x06")
    if at < 0 or len(end) - at < _END.size:
        return False
    *_, length, offset, comment = _END.unpack_from(end, at)
    # These bytes may occur in the data too; the real record's comment ends the file.
    if len(end) - at != _END.size + comment:
        return False
    # Zip64: the 32-bit fields are all ones, and the true offsets are in a separate record.
    if _WHOLE_64 in (length, offset):
        return end.rfind(b"PK\x06\x07", 0, at) >= 0
    return bool(offset + length <= size - len(end) + at)


def _safetensors_proof(start: bytes, size: int, path: str) -> bool:
    if len(start) < 8:
        return False
    # A damaged header may claim any length; without a ceiling it would be read into memory.
    (length,) = struct.unpack_from("<Q", start)
    if length > min(size - 8, _LONGEST_HEADER):
        return False
    with open_binary(path) as file:
        file.seek(8)
        try:
            header = json.loads(file.read(length))
            ends = [
                int(tensor["data_offsets"][1])
                for name, tensor in header.items()
                if name != "__metadata__"
            ]
        except _NO_HEADER:
            return False
    return bool(8 + length + max(ends, default=0) <= size)


def _hdf5_proof(start: bytes, size: int) -> bool | None:
    version = start[8] if len(start) > 8 else 0
    if version not in _SUPERBLOCKS:
        return None
    width_at, addresses_at = _SUPERBLOCKS[version]
    if len(start) <= width_at:
        return False
    width = start[width_at]
    if width not in (2, 4, 8):
        return None
    # The file's end is the third address, after its base and a table or extension.
    at = addresses_at + 2 * width
    end = start[at : at + width]
    return len(end) == width and int.from_bytes(end, "little") <= size


def _folder_proof(folder: str) -> bool | None:
    budget = SearchBudget()
    names = list(files_below(folder, budget))
    if budget.cut:
        return None
    # A file still being written: torch.distributed.checkpoint renames `.metadata.tmp` at the end.
    if not names or any(".tmp" in os.path.basename(name) for name in names):
        return False
    known = {os.path.basename(name) for name in names}
    if "training_args.bin" in known and not _is_object(folder, "trainer_state.json"):
        return False
    if any(name.endswith(".distcp") for name in known) and ".metadata" not in known:
        return False
    if not all(_has_shards(name) for name in names if name.endswith(".index.json")):
        return False
    found = [proof(name) for name in names if not name.endswith((".json", ".txt"))]
    if False in found:
        return False
    # JSON and text files prove nothing by themselves: without a marker file, every data file must.
    return True if "trainer_state.json" in known or (found and None not in found) else None


def _is_object(folder: str, name: str) -> bool:
    try:
        return isinstance(json.loads(read_plain(os.path.join(folder, name))), dict)
    except (OSError, ValueError, RecursionError):
        return False


def _has_shards(index: str) -> bool:
    try:
        shards: Sequence[str] = list(json.loads(read_plain(index))["weight_map"].values())
        names = {str(name) for name in shards}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return False
    folder = os.path.dirname(index)
    return all(os.path.exists(os.path.join(folder, name)) for name in names)
