# SPDX-License-Identifier: Apache-2.0
"""What safetensors headers can have wrong, for all tests that need such files."""

import json

from safetensors_file import assemble, entry, f32


class Spelled:
    """The entry of 4 bytes whose shape is spelled so, JSON or not."""

    def __init__(self, shape):
        self.shape = shape


def misfit(what, data):
    """The file of one of the MISFITS."""
    if not isinstance(what, Spelled):
        return assemble({"w": what}, data)
    text = '{"w":{"dtype":"U8","shape":%s,"data_offsets":[0,4]}}' % what.shape
    return assemble(text, data)


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
    "product_that_is_negative": (entry("I8", [2**63 - 1, 2], 0, 8), 8, ("2^56",)),
    "product_of_the_largest": (entry("U8", [2**64 - 1, 2], 0, 8), 8, ("2^56",)),
    "product_above_64_bits_by_little": (f32(2**42 + 1, 2**22, end=8), 8, ("2^56",)),
    "product_that_wraps_to_0": (f32(2**32, 2**32, end=0), 0, ("2^56",)),
    "bytes_that_wrap_to_0": (entry("F64", [2**61], 0, 0), 0, ("2^56",)),
    "bytes_that_wrap_to_8": (entry("F64", [2**61 + 1], 0, 8), 8, ("2^56",)),
    "bits_that_wrap_to_0": (entry("F4", [2**62], 0, 0), 0, ("2^56",)),
    "zero_first_and_what_wraps": (f32(0, 2**63, 2, end=0), 0, ("2^56",)),
    "more_elements_than_any_file": (entry("U8", [2**56], 0, 4), 4, (4, 2**56)),
    "range_of_the_whole_of_64_bits": (f32(2, end=2**64 - 1), 8, ()),
    "empty_past_the_end": (entry("U8", [0], 9, 9), 8, (9, 8)),
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
    "number_with_an_exponent": (Spelled("[4e0]"), 4, ("shape",)),
    "number_that_is_minus_0": (Spelled("[4,-0]"), 4, ("shape",)),
    "number_with_a_leading_zero": (Spelled("[04]"), 4, ("shape",)),
    "number_with_a_plus": (Spelled("[+4]"), 4, ("shape",)),
    "number_in_hexadecimal": (Spelled("[0x4]"), 4, ("shape",)),
    "number_that_is_none": (Spelled("[NaN]"), 4, ("shape",)),
    "number_that_is_true": (Spelled("[true,4]"), 4, ("shape",)),
    "number_that_is_null": (Spelled("[null]"), 4, ("shape",)),
    "list_in_a_shape": (Spelled("[[4]]"), 4, ("shape",)),
    "comma_at_the_end_of_a_shape": (Spelled("[4,]"), 4, ("shape",)),
    "comma_alone_in_a_shape": (Spelled("[,4]"), 4, ("shape",)),
    "comment_in_a_shape": (Spelled("[4/**/]"), 4, ("shape",)),
    "offset_above_64_bits": (entry("U8", [4], 0, 2**64 + 4), 4, ("data_offsets",)),
    "offset_with_a_fraction": (entry("U8", [4], 0, 4.0), 4, ("data_offsets",)),
    "negative_offset": (entry("U8", [4], -4, 0), 4, ("data_offsets",)),
    "shape_is_null": ({"dtype": "U8", "shape": None, "data_offsets": [0, 4]}, 4, ()),
    "dtype_is_null": ({"dtype": None, "shape": [4], "data_offsets": [0, 4]}, 4, ()),
    "offsets_are_null": ({"dtype": "U8", "shape": [4], "data_offsets": None}, 4, ()),
    "key_in_capitals": ({"Dtype": "U8", "shape": [4], "data_offsets": [0, 4]}, 4, ()),
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
    "utf_16": ('{"w":%s}' % W.decode()).encode("utf-16-le"),
    "no_colon": b'{"w" %s}' % W,
    "no_comma": b'{"w":%s "v":%s}' % (W, W),
    "bracket_for_a_brace": b'{"w":%s]' % W,
    "brace_too_many": b'{"w":%s}}' % W,
    "no_break_space_after": b'{"w":%s}\xc2\xa0' % W,
    "form_feed_inside": b'{\f"w":%s}' % W,
    "comment_at_the_end_of_a_line": b'{"w":%s} // the end' % W,
    "key_that_is_a_number": b"{1:%s}" % W,
    "half_an_escape_of_a_pair": b'{"w\\udc00":%s}' % W,
    "short_escape": b'{"w\\u12":%s}' % W,
    "not_a_number_in_metadata": b'{"__metadata__":{"k":NaN},"w":%s}' % W,
    "number_of_no_key": b'{"w":{"x":1.,%s}' % W[1:],
    "byte_order_mark": b'\xef\xbb\xbf{"w":%s}' % W,
    "not_a_number": b'{"w":{"dtype":"F32","shape":[01],"data_offsets":[0,4]}}',
    "bad_utf8_in_a_key_to_pass_over": b'{"w":{"\xff":1,%s}' % W[1:],
    "bad_json_in_a_key_to_pass_over": b'{"w":{"x":[1,],%s}' % W[1:],
    "bad_utf8_in_metadata": b'{"__metadata__":{"k":"\xff"},"w":%s}' % W,
}
