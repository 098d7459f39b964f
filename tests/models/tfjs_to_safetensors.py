#!/usr/bin/env python3
"""Turns TensorFlow.js models into safetensors files.

    tfjs_to_safetensors.py MODELS OUT_DIR
    tfjs_to_safetensors.py --merged MODELS OUT.safetensors

MODELS is a model's .json file, or a folder: then every .json in it that has a
"weightsManifest" is a model. The .bin files lie beside it, under the paths that
the manifest names. The first form writes one file per model, the second one
file for all, with "<model>/" in front of each tensor's name.

Tensors keep the bytes that are stored: a float32 tensor quantized to float16
becomes F16; one quantized to uint8 or uint16 stays so, and the file's metadata
says under "quantization" how to get the floats back (value * scale + min).

Nothing is guessed: an unknown type, a size that does not fit, a name twice or
a path out of the folder is an error, and nothing is written.
"""

import argparse
import json
import math
import os
import struct
import sys

# TensorFlow.js name -> (safetensors name, bytes of an element).
DTYPES = {
    "float32": ("F32", 4),
    "float16": ("F16", 2),
    "int32": ("I32", 4),
    "uint16": ("U16", 2),
    "uint8": ("U8", 1),
    "bool": ("BOOL", 1),
    "complex64": ("C64", 8),
}
# What a tensor may be stored as when its entry has a "quantization".
QUANTIZED = {"float16", "uint8", "uint16"}
# Files list tensors in this order of types, as the reference writer does.
DTYPE_ORDER = ["C64", "F32", "I32", "F16", "U16", "U8", "BOOL"]


class ConversionError(Exception):
    """The input is not what it should be; the message names the place."""


class Tensor:
    def __init__(self, name, dtype, shape, data):
        self.name = name
        self.dtype = dtype
        self.shape = shape
        self.data = data  # A view of the .bin file's bytes.


def read_group(folder, paths):
    """The bytes of a manifest group: its files, one after the other."""
    parts = []
    for path in paths:
        if os.path.isabs(path) or ".." in path.replace("\\", "/").split("/"):
            raise ConversionError(f"path {path!r} leaves the folder")
        with open(os.path.join(folder, path), "rb") as file:
            parts.append(file.read())
    return memoryview(b"".join(parts))


def stored_type(weight):
    """(safetensors dtype, bytes of an element) of what the .bin file holds."""
    quantization = weight.get("quantization")
    if quantization is None:
        stored = weight["dtype"]
    else:
        stored = quantization["dtype"]
        if weight["dtype"] != "float32" or stored not in QUANTIZED:
            raise ConversionError(f"quantization {quantization}")
    if stored not in DTYPES:
        raise ConversionError(f"dtype {stored!r}")
    return DTYPES[stored]


def check_shape(shape):
    for dim in shape:
        if not isinstance(dim, int) or isinstance(dim, bool) or dim < 0:
            raise ConversionError(f"shape {shape}")
    return shape


def read_weight(weight, data, offset):
    dtype, element_bytes = stored_type(weight)
    shape = check_shape(weight["shape"])
    size = math.prod(shape) * element_bytes
    if offset + size > len(data):
        raise ConversionError(
            f"needs {size} bytes at {offset}, the files have {len(data)}")
    return Tensor(weight["name"], dtype, shape, data[offset:offset + size])


def read_model(path):
    """([Tensor], {name: quantization}) of a model, or None: not a model."""
    with open(path, "rb") as file:
        model = json.load(file)
    if not isinstance(model, dict) or "weightsManifest" not in model:
        return None
    tensors, quantizations = [], {}
    for group in model["weightsManifest"]:
        data = read_group(os.path.dirname(path), group["paths"])
        offset = 0
        for weight in group["weights"]:
            try:
                tensor = read_weight(weight, data, offset)
            except ConversionError as error:
                raise ConversionError(f"{weight.get('name')}: {error}")
            offset += len(tensor.data)
            tensors.append(tensor)
            # float16 needs no factor to be read back.
            if weight.get("quantization", {}).get("dtype") in (
                    "uint8", "uint16"):
                quantizations[tensor.name] = weight["quantization"]
        if offset != len(data):
            raise ConversionError(
                f"{group['paths']}: {len(data)} bytes, of which the manifest "
                f"names {offset}")
    check_unique(tensors)
    return tensors, quantizations


def check_unique(tensors):
    names = set()
    for tensor in tensors:
        if tensor.name in names or tensor.name == "__metadata__":
            raise ConversionError(f"tensor name {tensor.name!r} is taken")
        names.add(tensor.name)


def to_json(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def header_bytes(tensors, quantizations):
    """The file's start; `tensors` in the order of the data."""
    header = {}
    if quantizations:
        header["__metadata__"] = {
            "quantization": to_json(dict(sorted(quantizations.items())))}
    end = 0
    for tensor in tensors:
        begin, end = end, end + len(tensor.data)
        header[tensor.name] = {
            "dtype": tensor.dtype,
            "shape": tensor.shape,
            "data_offsets": [begin, end],
        }
    text = to_json(header).encode("utf-8")
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text


def write_safetensors(path, tensors, quantizations):
    tensors = sorted(tensors, key=lambda tensor: (
        DTYPE_ORDER.index(tensor.dtype), tensor.name.encode("utf-8")))
    header = header_bytes(tensors, quantizations)
    unfinished = path + ".part"
    with open(unfinished, "wb") as file:
        file.write(header)
        for tensor in tensors:
            file.write(tensor.data)
    os.replace(unfinished, path)


def find_models(path):
    """[(model's name, [Tensor], quantizations)], sorted by name."""
    if os.path.isdir(path):
        files = [os.path.join(path, name) for name in sorted(os.listdir(path))
                 if name.endswith(".json")]
    else:
        files = [path]
    models = []
    for file in files:
        try:
            model = read_model(file)
        except (ConversionError, KeyError, TypeError, ValueError) as error:
            raise ConversionError(f"{file}: {error!r}") from error
        if model is not None:
            name = os.path.splitext(os.path.basename(file))[0]
            models.append((name, *model))
    if not models:
        raise ConversionError(f"{path}: no TensorFlow.js model")
    return models


def merge(models):
    tensors, quantizations = [], {}
    for model, its_tensors, its_quantizations in models:
        for tensor in its_tensors:
            tensor.name = f"{model}/{tensor.name}"
            tensors.append(tensor)
        for name, quantization in its_quantizations.items():
            quantizations[f"{model}/{name}"] = quantization
    check_unique(tensors)
    return tensors, quantizations


def convert(models_path, out, merged):
    """Writes the files; returns a line about each."""
    models = find_models(models_path)
    if merged:
        outputs = [(out, *merge(models))]
    else:
        os.makedirs(out, exist_ok=True)
        outputs = [(os.path.join(out, name + ".safetensors"), *rest)
                   for name, *rest in models]
    lines = []
    for path, tensors, quantizations in outputs:
        write_safetensors(path, tensors, quantizations)
        lines.append(f"{path}: {len(tensors)} tensors, "
                     f"{os.path.getsize(path)} bytes")
    return lines


def main():
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models")
    parser.add_argument("out")
    parser.add_argument("--merged", action="store_true",
                        help="one file with all models")
    arguments = parser.parse_args()
    try:
        lines = convert(arguments.models, arguments.out, arguments.merged)
    except (ConversionError, OSError) as error:
        print(f"tfjs_to_safetensors: {error}", file=sys.stderr)
        return 1
    print("\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
