# SPDX-License-Identifier: Apache-2.0
# Completion of the weig command for bash. Files are completed where it says nothing.

_weig() {
  local word=${COMP_WORDS[COMP_CWORD]}
  local before=${COMP_WORDS[COMP_CWORD - 1]}
  local command=${COMP_WORDS[1]}
  local options='-h --help'
  COMPREPLY=()

  if ((COMP_CWORD == 1)); then
    mapfile -t COMPREPLY < <(compgen -W \
      "convert info ls get verify export merge diff apply bench residency warm evict doctor
       $options --version" -- "$word")
    return
  fi

  case $before in
    --alpha | --scale | --block | --include | --exclude | --rename | --threads | \
      --max-header-bytes | --max-expansion | --select | --shard-size | --slice | --groups | --rounds)
      # A value that only its user knows; without this, files would be offered.
      compopt +o default +o bashdefault
      return
      ;;
    --load)
      compopt +o default +o bashdefault
      mapfile -t COMPREPLY < <(compgen -W "map stream populate read auto" -- "$word")
      return
      ;;
    --from)
      compopt +o default +o bashdefault
      mapfile -t COMPREPLY < <(compgen -W "weig safetensors gguf torch npy npz onnx" -- "$word")
      return
      ;;
    --cast | --quantize | --dequantize)
      local types='f32 f16 bf16 f8_e4m3fn'
      [[ $before == --quantize ]] && types='int8 int4'
      compopt +o default +o bashdefault
      mapfile -t COMPREPLY < <(compgen -W "$types" -- "$word")
      return
      ;;
    --ways | --states)
      # The last of a list between commas.
      local names='map stream populate read auto copy buffer plain' known=
      [[ $before == --states ]] && names='cold warm'
      [[ $word == *,* ]] && known=${word%,*},
      compopt +o default +o bashdefault -o nospace
      mapfile -t COMPREPLY < <(compgen -P "$known" -W "$names" -- "${word##*,}")
      return
      ;;
  esac

  [[ $word == -* ]] || return
  case $command in
    convert)
      options+=' -o --output -f --force --lenient --copy-others --sha256'
      options+=' --select --max-expansion --shard-size --max-header-bytes --cast --quantize --dequantize'
      options+=' --block --asymmetric --include --exclude --rename --from --json'
      ;;
    info | ls)
      options+=' --accept-unsealed --accept-unknown-dtypes --json'
      ;;
    get)
      options+=' --slice -o --output -f --force --raw --widen --all'
      options+=' --accept-unsealed --accept-unknown-dtypes --json'
      ;;
    verify)
      options+=' --quick --tensors --threads --load --accept-unsealed'
      options+=' --accept-unknown-dtypes --json'
      ;;
    export)
      options+=' --to --architecture --shard-size -f --force --json'
      ;;
    diff)
      options+=' --include --exclude --bytes --lenient --all --json'
      ;;
    merge)
      options+=' -o --output -f --force --json'
      ;;
    apply)
      options+=' -o --output --copy-others --alpha --scale -f --force --json'
      ;;
    warm)
      options+=' --groups --lock --lock-what-fits --huge --threads --json'
      ;;
    residency | evict | doctor)
      options+=' --json'
      ;;
    bench)
      options+=' --ways --states --rounds --threads --fresh --html -f --force'
      options+=' --accept-unsealed --accept-unknown-dtypes --json'
      ;;
  esac
  mapfile -t COMPREPLY < <(compgen -W "$options" -- "$word")
}

complete -o bashdefault -o default -F _weig weig
