# SPDX-License-Identifier: Apache-2.0
"""What safetensors headers can have wrong, for all tests that need such files."""

import json

from safetensors_file import entry, f32

# Kind of misfit -> the entry of tensor "w", bytes of data, what the message holds.
MISFITS = {
    "a_million_elements_over_4_bytes": (f32(1000, 1000, end=4), 4, (4, 4000000)),
    "range_longer_by_one": (f32(2, end=9), 9, (9, 8)),
    "range_shorter_by_one": (f32(2, end=7), 7, (7, 8)),
    "end_before_begin": (f32(2, begin=8, end=0), 16, ("[8, 0]",)),
    "range_past_the_end": (f32(2, begin=4, end=12), 8, (12, 8)),
    "range_far_past_the_end": (f32(2, begin=2**63, end=2**63 + 8), 8, ()),
    "range_that_wraps": (f32(2, begin=2**64 - 8, end=2**64 - 1), 8, ()),
    "product_that_wraps_to_the_range": (f32(2**63, 2, end=0), 8, ("2^56",)),
    "product_that_wraps_to_8": (f32(2**62 + 1, 2, end=8), 8, ("2^56",)),
    "product_of_zero_and_what_wraps": (f32(2**32, 2**32, 0, end=0), 0, ("2^56",)),
    "rank_65": (f32(*[1] * 65, end=4), 4, ("64",)),
    "rank_1000": (f32(*[1] * 1000, end=4), 4, ("64",)),
    "one_offset": ({"dtype": "U8", "shape": [4], "data_offsets": [4]}, 4, (1, 2)),
    "three_offsets": (
        {"dtype": "U8", "shape": [4], "data_offsets": [0, 4, 4]},
        4,
        (2,),
    ),
    "no_offsets": ({"dtype": "U8", "shape": [4], "data_offsets": []}, 4, (0, 2)),
    "offsets_are_text": ({"dtype": "U8", "shape": [4], "data_offsets": "04"}, 4, ()),
    "no_data_offsets": ({"dtype": "U8", "shape": [4]}, 4, ("data_offsets",)),
    "no_shape": ({"dtype": "U8", "data_offsets": [0, 4]}, 4, ("shape",)),
    "no_dtype": ({"shape": [4], "data_offsets": [0, 4]}, 4, ("dtype",)),
    "negative_dimension": (entry("U8", [-4], 0, 4), 4, ("shape",)),
    "fraction_as_dimension": (entry("U8", [4.0], 0, 4), 4, ("shape",)),
    "dimension_above_64_bits": (entry("U8", [2**64 + 4], 0, 4), 4, ("shape",)),
    "dimension_is_text": (entry("U8", ["4"], 0, 4), 4, ("shape",)),
    "shape_is_a_number": ({"dtype": "U8", "shape": 4, "data_offsets": [0, 4]}, 4, ()),
    "dtype_is_a_number": ({"dtype": 4, "shape": [4], "data_offsets": [0, 4]}, 4, ()),
    "entry_is_a_list": ([4], 4, ()),
    "entry_is_null": (None, 4, ()),
}

# Kind of text -> a header that is no JSON, or not all of it.
W = json.dumps(f32(1)).encode()
TEXTS = {
    "ends_inside_a_character": b'{"w\xc3',
    "ends_inside_a_string": b'{"w',
    "ends_inside_an_object": b'{"w":%s' % W,
    "ends_after_a_comma": b'{"w":%s,' % W,
    "comma_before_the_end": b'{"w":%s,}' % W,
    "comma_after_nothing": b'{,"w":%s}' % W,
    "two_objects": b'{"w":%s}{}' % W,
    "text_after_the_object": b'{"w":%s}x' % W,
    "bad_utf8_in_a_name": b'{"w\xff":%s}' % W,
    "overlong_utf8": b'{"w\xc0\x80":%s}' % W,
    "surrogate_in_utf8": b'{"w\xed\xa0\x80":%s}' % W,
    "lone_surrogate": b'{"w\\ud800":%s}' % W,
    "bad_escape": b'{"w\\x":%s}' % W,
    "control_character": b'{"w\n":%s}' % W,
    "no_quotes": b"{w:%s}" % W,
    "single_quotes": b"{'w':%s}" % W,
    "comment": b'{"w":%s}/**/' % W,
    "a_list": b"[]",
    "a_string": b'"w"',
    "nul_after_the_object": b'{"w":%s}\0' % W,
    "white_space_before": b' {"w":%s}' % W,
    "byte_order_mark": b'\xef\xbb\xbf{"w":%s}' % W,
    "not_a_number": b'{"w":{"dtype":"F32","shape":[01],"data_offsets":[0,4]}}',
    "bad_utf8_in_a_key_to_pass_over": b'{"w":{"\xff":1,%s}' % W[1:],
    "bad_json_in_a_key_to_pass_over": b'{"w":{"x":[1,],%s}' % W[1:],
    "bad_utf8_in_metadata": b'{"__metadata__":{"k":"\xff"},"w":%s}' % W,
}
