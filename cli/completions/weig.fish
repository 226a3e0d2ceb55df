# SPDX-License-Identifier: Apache-2.0
# Completion of the weig command for fish. Files are completed by default.

function __weig_in
    __fish_seen_subcommand_from $argv
end

set -l commands convert info ls get verify export merge diff apply bench residency warm evict doctor
set -l none "not __fish_seen_subcommand_from $commands"

complete -c weig -s h -l help -d 'Explain this'
complete -c weig -n "$none" -f -l version -d 'Show versions, and the formats'
complete -c weig -n "$none" -f -a convert -d 'Turn files of other formats into a WEIG file'
complete -c weig -n "$none" -f -a info -d 'Show what a file is and holds'
complete -c weig -n "$none" -f -a ls -d 'List tensors, one line each'
complete -c weig -n "$none" -f -a get -d 'Print or write a tensor\'s values'
complete -c weig -n "$none" -f -a verify -d 'Check every byte against the digests'
complete -c weig -n "$none" -f -a export -d 'Turn a WEIG file back into safetensors'
complete -c weig -n "$none" -f -a merge -d 'Make one file of a sharded set, or of several files'
complete -c weig -n "$none" -f -a diff -d 'Show what two models differ in'
complete -c weig -n "$none" -f -a apply -d 'Add a LoRA adapter to a model'
complete -c weig -n "$none" -f -a bench -d 'Measure how fast a file loads here'

complete -c weig -n "$none" -f -a residency -d 'Show how much is in memory'
complete -c weig -n "$none" -f -a warm -d 'Bring a file into memory'
complete -c weig -n "$none" -f -a evict -d 'Drop a file from memory'
complete -c weig -n "$none" -f -a doctor -d 'Say what will slow or break loading'

complete -c weig -n "__weig_in $commands" -l json -d 'Print JSON, errors too'
complete -c weig -n '__weig_in convert get merge apply' -s o -l output -r -F -d 'What to write'
complete -c weig -n '__weig_in export' -l to -x -a 'safetensors gguf torch npz npy' -d 'Format to write'
complete -c weig -n '__weig_in export' -l shard-size -x -d 'Write several files, none larger'
complete -c weig -n '__weig_in export' -l architecture -x -d "GGUF's general.architecture"
complete -c weig -n '__weig_in convert get export merge apply bench' -s f -l force \
    -d 'Replace the output if it is there already'
complete -c weig -n '__weig_in info ls get verify bench' -l accept-unsealed \
    -d 'Open minimal files too'
complete -c weig -n '__weig_in info ls get verify bench' -l accept-unknown-dtypes \
    -d 'Open files with unknown element types'

complete -c weig -n '__weig_in convert' -l lenient \
    -d 'Accept, with a warning, what readers disagree on'
complete -c weig -n '__weig_in convert' -l copy-others \
    -d 'Copy the other files of a folder'
complete -c weig -n '__weig_in convert' -l sha256 \
    -d 'Record the SHA-256 of each source file'
complete -c weig -n '__weig_in convert' -l select -x -d 'Part of a PyTorch checkpoint'
complete -c weig -n '__weig_in convert' -l max-expansion -x \
    -d 'Refuse tensors that repeat more'
complete -c weig -n '__weig_in convert' -l shard-size -x \
    -d 'Write a set of files, none larger'
complete -c weig -n '__weig_in convert' -l max-header-bytes -x \
    -d 'Refuse longer headers of source files'
complete -c weig -n '__weig_in convert' -l cast -x -a 'f32 f16 bf16 f8_e4m3fn' \
    -d 'Cast floating tensors'
complete -c weig -n '__weig_in convert' -l quantize -x -a 'int8 int4' \
    -d 'Quantize floating tensors'
complete -c weig -n '__weig_in convert' -l dequantize -x -a 'f32 f16 bf16 f8_e4m3fn' \
    -d 'Turn quantized tensors back'
complete -c weig -n '__weig_in convert' -l block -x \
    -d 'One scale for so many neighbours'
complete -c weig -n '__weig_in convert' -l asymmetric \
    -d 'Unsigned integers with zero points'
complete -c weig -n '__weig_in convert' -l include -x \
    -d 'Take or change only tensors with such names'
complete -c weig -n '__weig_in convert' -l exclude -x \
    -d 'Leave out tensors with such names'
complete -c weig -n '__weig_in convert' -l rename -x -d 'Give tensors other names: FROM=TO'
complete -c weig -n '__weig_in convert' -l from -x -d 'What the sources are' \
    -a 'weig safetensors gguf torch npy npz onnx'

complete -c weig -n '__weig_in diff' -l include -x -d 'Compare only tensors with such names'
complete -c weig -n '__weig_in diff' -l exclude -x -d 'Leave out tensors with such names'
complete -c weig -n '__weig_in diff' -l bytes -d 'Read all bytes'
complete -c weig -n '__weig_in diff' -l lenient -d 'Accept what convert --lenient accepts'
complete -c weig -n '__weig_in diff' -l all -d 'List all differences'

complete -c weig -n '__weig_in apply' -l copy-others -d 'Copy a folder\'s other files'
complete -c weig -n '__weig_in apply' -l alpha -x \
    -d 'Take this for the lora_alpha of all'
complete -c weig -n '__weig_in apply' -l scale -x -d 'Take this scale'

complete -c weig -n '__weig_in get' -l slice -x -d 'Only these elements, as in NumPy'
complete -c weig -n '__weig_in get' -l raw -d 'Bytes as they are stored'
complete -c weig -n '__weig_in get' -l widen -d 'Widen types that NumPy lacks'
complete -c weig -n '__weig_in get' -l all -d 'Print all values of a large tensor'


complete -c weig -n '__weig_in warm' -l groups -x -d 'Only these groups of layers'
complete -c weig -n '__weig_in warm' -l lock -d 'Keep it in memory until stopped'
complete -c weig -n '__weig_in warm' -l lock-what-fits -d 'Keep what the limit allows'
complete -c weig -n '__weig_in warm' -l huge -d 'Read small folios again as 2 MiB ones'
complete -c weig -n '__weig_in verify bench warm' -l threads -x -d 'How many threads to use'
complete -c weig -n '__weig_in verify' -l quick -d 'Structure, sections and metadata only'
complete -c weig -n '__weig_in verify' -l tensors -x -d 'Only tensors whose names match'
complete -c weig -n '__weig_in verify' -l load -x -a 'map stream populate read auto' \
    -d 'How to bring the file into memory'

complete -c weig -n '__weig_in bench' -l ways -x -d 'Which, between commas' \
    -a '(__fish_append , map stream populate read auto copy buffer plain)'
complete -c weig -n '__weig_in bench' -l states -x -d 'Cold, warm, or both' \
    -a '(__fish_append , cold warm)'
complete -c weig -n '__weig_in bench' -l rounds -x -d 'How many runs of each'
complete -c weig -n '__weig_in bench' -l fresh -d 'Also with memory that lay idle'
complete -c weig -n '__weig_in bench' -l html -r -F -d 'Write a page with plots too'
