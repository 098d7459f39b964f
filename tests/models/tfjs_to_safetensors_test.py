#!/usr/bin/env python3
"""Tests of the converter, on models made here."""

import json
import os
import struct
import tempfile
import unittest

import tfjs_to_safetensors as converter


def weight(name, dtype, shape, /, **quantization):
    entry = {"name": name, "dtype": dtype, "shape": shape}
    if quantization:
        entry["quantization"] = quantization
    return entry


def read_safetensors(path):
    """(metadata, {name: (dtype, shape, bytes)}, names in order of the data)."""
    with open(path, "rb") as file:
        data = file.read()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + length])
    metadata = header.pop("__metadata__", {})
    start, end, tensors = 8 + length, 0, {}
    assert length % 8 == 0
    for name, entry in header.items():
        begin, stop = entry["data_offsets"]
        assert begin == end
        end = stop
        tensors[name] = (entry["dtype"], entry["shape"],
                         data[start + begin:start + stop])
    assert len(data) == start + end
    return metadata, tensors, list(header)


class ConverterTest(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def make_model(self, name, weights, files, paths=None):
        for file, data in files.items():
            with open(self.path(file), "wb") as out:
                out.write(data)
        manifest = [{"paths": paths or list(files), "weights": weights}]
        with open(self.path(name + ".json"), "w") as out:
            json.dump({"weightsManifest": manifest}, out)

    def convert(self, merged=False):
        out = self.path("out.safetensors" if merged else "out")
        converter.convert(self.folder, out, merged)
        return out

    def assert_refused(self, message):
        with self.assertRaisesRegex(converter.ConversionError, message):
            self.convert()
        self.assertFalse(os.path.exists(self.path("out")))

    def test_every_type_keeps_its_bytes_and_wide_types_come_first(self):
        weights = [
            weight("b", "bool", [3]),
            weight("q", "float32", [2], dtype="uint8", min=-1.0, scale=0.5),
            weight("h", "float32", [2], dtype="float16",
                   original_dtype="float32"),
            weight("z/é", "int32", []),
            weight("a", "float32", [1, 2]),
            weight("none", "float32", [0, 5]),
            weight("w", "float32", [1], dtype="uint16", min=0, scale=2),
        ]
        data = bytes(range(3 + 2 + 4 + 4 + 8 + 2))
        self.make_model("m", weights, {"m.bin": data})
        metadata, tensors, order = read_safetensors(
            os.path.join(self.convert(), "m.safetensors"))
        self.assertEqual(order, ["a", "none", "z/é", "h", "w", "q", "b"])
        self.assertEqual(tensors["b"], ("BOOL", [3], data[:3]))
        self.assertEqual(tensors["q"], ("U8", [2], data[3:5]))
        self.assertEqual(tensors["h"], ("F16", [2], data[5:9]))
        self.assertEqual(tensors["z/é"], ("I32", [], data[9:13]))
        self.assertEqual(tensors["a"], ("F32", [1, 2], data[13:21]))
        self.assertEqual(tensors["none"], ("F32", [0, 5], b""))
        self.assertEqual(tensors["w"], ("U16", [1], data[21:]))
        self.assertEqual(
            json.loads(metadata["quantization"]),
            {"q": {"dtype": "uint8", "min": -1.0, "scale": 0.5},
             "w": {"dtype": "uint16", "min": 0, "scale": 2}})

    def test_tensor_over_two_files_of_a_group_is_joined(self):
        self.make_model("m", [weight("a", "float32", [2])],
                        {"m1.bin": b"abc", "m2.bin": b"defgh"})
        _, tensors, _ = read_safetensors(
            os.path.join(self.convert(), "m.safetensors"))
        self.assertEqual(tensors["a"][2], b"abcdefgh")

    def test_merged_file_has_the_model_before_each_name(self):
        self.make_model("x", [weight("t", "uint8", [1])], {"x.bin": b"1"})
        self.make_model("y", [weight("t", "uint8", [1])], {"y.bin": b"2"})
        with open(self.path("other.json"), "w") as out:
            json.dump({"no": "model"}, out)
        _, tensors, _ = read_safetensors(self.convert(merged=True))
        self.assertEqual(tensors, {"x/t": ("U8", [1], b"1"),
                                   "y/t": ("U8", [1], b"2")})

    def test_sizes_that_do_not_fit_are_refused(self):
        self.make_model("m", [weight("a", "float32", [2])],
                        {"m.bin": b"1234567"})
        self.assert_refused("a: needs 8 bytes at 0, the files have 7")
        self.make_model("m", [weight("a", "float32", [2])],
                        {"m.bin": b"123456789"})
        self.assert_refused("9 bytes, of which the manifest names 8")

    def test_unknown_types_and_shapes_are_refused(self):
        for bad in (weight("a", "string", [1]), weight("a", "float32", [-1]),
                    weight("a", "float32", [1.5]),
                    weight("a", "float32", [1], dtype="int4"),
                    weight("a", "int32", [1], dtype="uint8", min=0, scale=1)):
            self.make_model("m", [bad], {"m.bin": b"1234"})
            self.assert_refused("m.json.*a: ")

    def test_name_twice_is_refused(self):
        self.make_model("m", [weight("a", "uint8", [1])] * 2,
                        {"m.bin": b"12"})
        self.assert_refused("'a' is taken")

    def test_path_out_of_the_folder_is_refused(self):
        for path in ("../m.bin", "/etc/hostname", "a/../../m.bin"):
            self.make_model("m", [], {}, paths=[path])
            self.assert_refused("leaves the folder")

    def test_folder_without_models_is_refused(self):
        self.assert_refused("no TensorFlow.js model")


if __name__ == "__main__":
    unittest.main()
