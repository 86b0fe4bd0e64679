#!/usr/bin/env bash
# Train the cascade on four GPUs of this machine; what is not named here goes on to train.py.
set -euo pipefail

usage() {
    cat <<'TEXT'
usage: train_4gpu.sh [--config FILE] [--checkpoint_dir DIR] [--method torchrun|accelerate]
                     [--wandb] [--gpus N] [--mixed_precision fp16|bf16|no] [train.py's flags]

  bash train_4gpu.sh --config config/multi_view_config.json --method accelerate --wandb
TEXT
}

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
config=config/multi_view_config.json checkpoint_dir=checkpoints_4gpu method=torchrun
gpus=4 precision=fp16 rest=()
while (($#)); do
    case "$1" in
        --config | --checkpoint_dir | --method | --gpus | --mixed_precision)
            (($# > 1)) || { echo "error: $1 needs a value" >&2; exit 2; }
            case "$1" in
                --config) config=$2 ;;
                --checkpoint_dir) checkpoint_dir=$2 ;;
                --method) method=$2 ;;
                --gpus) gpus=$2 ;;
                --mixed_precision) precision=$2 ;;
            esac
            shift 2 ;;
        -h | --help) usage; exit 0 ;;
        *) rest+=("$1"); shift ;;
    esac
done
arguments=(--config "$config" --checkpoint_dir "$checkpoint_dir")
arguments+=(--mixed_precision "$precision" "${rest[@]}")
case "$method" in
    torchrun)
        exec torchrun --standalone --nproc_per_node="$gpus" \
            "$here/train_distributed.py" "${arguments[@]}" ;;
    accelerate)
        launcher=(--num_processes="$gpus" --num_machines=1 --dynamo_backend=no)
        launcher+=(--mixed_precision="$precision")
        ((gpus > 1)) && launcher+=(--multi_gpu)
        exec accelerate launch "${launcher[@]}" "$here/train_accelerate.py" "${arguments[@]}" ;;
    *) echo "error: --method is torchrun or accelerate, not $method" >&2; exit 2 ;;
esac
