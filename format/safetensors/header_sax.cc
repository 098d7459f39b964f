#include "format/safetensors/header_sax.h"

#include <utility>

#include "format/base/limits.h"
#include "format/base/status.h"
#include "format/path/names.h"

namespace cairn::format {
namespace {

constexpr std::string_view kMetadataKey = "__metadata__";

std::string Quoted(std::string_view text) {
  return absl::StrCat("\"", EscapeForDisplay(text), "\"");
}

}  // namespace

bool SafetensorsHeaderSax::Fail(std::string error) {
  if (error_.empty()) error_ = std::move(error);
  return false;
}

bool SafetensorsHeaderSax::Scalar() {
  if (skip_depth_ > 0) return true;
  if (expect_ == Expect::kAnything && place_ == Place::kEntry) {
    expect_ = Expect::kKey;
    return true;
  }
  return Fail("a value of a type that does not belong there");
}

bool SafetensorsHeaderSax::null() {
  if (skip_depth_ == 0 && expect_ == Expect::kMetadata) {
    expect_ = Expect::kKey;
    return true;
  }
  return Scalar();
}

bool SafetensorsHeaderSax::boolean(bool) { return Scalar(); }

bool SafetensorsHeaderSax::number_integer(Json::number_integer_t) {
  return Scalar();  // Only negative ones come here.
}

bool SafetensorsHeaderSax::number_float(Json::number_float_t,
                                        const std::string&) {
  return Scalar();
}

bool SafetensorsHeaderSax::binary(Json::binary_t&) { return Scalar(); }

bool SafetensorsHeaderSax::number_unsigned(Json::number_unsigned_t value) {
  if (skip_depth_ > 0) return true;
  if (place_ == Place::kShape) {
    std::vector<uint64_t>& shape = entries_.back().shape;
    if (shape.size() == kTensorRankMax) {
      return Fail(absl::StrCat("TooManyDimensions: over ", kTensorRankMax));
    }
    shape.push_back(value);
    return true;
  }
  if (place_ == Place::kOffsets) {
    if (offsets_.size() == 2) return Fail("data_offsets of over two numbers");
    offsets_.push_back(value);
    return true;
  }
  return Scalar();
}

bool SafetensorsHeaderSax::string(std::string& value) {
  if (skip_depth_ > 0) return true;
  if (expect_ == Expect::kText) {
    expect_ = Expect::kKey;
    if (metadata_.emplace(metadata_key_, std::move(value)).second) return true;
    return Fail(absl::StrCat("DuplicateKey: ", Quoted(metadata_key_),
                             " in __metadata__"));
  }
  if (expect_ == Expect::kDtype) {
    const std::optional<Dtype> dtype = ParseDtype(value);
    if (!dtype) return Fail(absl::StrCat("unknown dtype ", Quoted(value)));
    entries_.back().dtype = *dtype;
    expect_ = Expect::kKey;
    return true;
  }
  return Scalar();
}

bool SafetensorsHeaderSax::start_object(size_t) {
  if (skip_depth_ > 0 || expect_ == Expect::kAnything) {
    if (++skip_depth_ <= kJsonDepthMax) return true;
    return Fail(absl::StrCat("nested over ", kJsonDepthMax, " deep"));
  }
  if (place_ == Place::kStart) {
    place_ = Place::kTop;
    return true;
  }
  if (expect_ == Expect::kMetadata || expect_ == Expect::kEntry) {
    place_ = expect_ == Expect::kEntry ? Place::kEntry : Place::kMetadata;
    expect_ = Expect::kKey;
    return true;
  }
  return Fail("an object that does not belong there");
}

bool SafetensorsHeaderSax::key(std::string& name) {
  if (skip_depth_ > 0) return true;
  if (place_ == Place::kEntry) return EntryKey(name);
  if (place_ == Place::kMetadata) {
    metadata_key_ = std::move(name);
    expect_ = Expect::kText;
    return true;
  }
  CAIRN_CHECK(place_ == Place::kTop);
  if (name == kMetadataKey) {
    if (std::exchange(has_metadata_, true)) {
      return Fail("DuplicateKey: \"__metadata__\"");
    }
    expect_ = Expect::kMetadata;
    return true;
  }
  if (entries_.size() == kTensorsPerFileMax) {
    return Fail(absl::StrCat("TooManyTensors: over ", kTensorsPerFileMax));
  }
  entries_.emplace_back().name = std::move(name);
  has_dtype_ = has_shape_ = has_offsets_ = false;
  offsets_.clear();
  expect_ = Expect::kEntry;
  return true;
}

bool SafetensorsHeaderSax::EntryKey(const std::string& name) {
  bool duplicate = false;
  if (name == "dtype") {
    duplicate = std::exchange(has_dtype_, true);
    expect_ = Expect::kDtype;
  } else if (name == "shape") {
    duplicate = std::exchange(has_shape_, true);
    expect_ = Expect::kShape;
  } else if (name == "data_offsets") {
    duplicate = std::exchange(has_offsets_, true);
    expect_ = Expect::kOffsets;
  } else {
    expect_ = Expect::kAnything;  // Room for what comes after us.
  }
  if (!duplicate) return true;
  return Fail(absl::StrCat("DuplicateKey: ", Quoted(name), " in tensor ",
                           Quoted(entries_.back().name)));
}

bool SafetensorsHeaderSax::end_object() {
  if (skip_depth_ > 0) {
    if (--skip_depth_ == 0) expect_ = Expect::kKey;
    return true;
  }
  if (place_ == Place::kEntry) return EndEntry();
  place_ = place_ == Place::kMetadata ? Place::kTop : Place::kDone;
  return true;
}

bool SafetensorsHeaderSax::EndEntry() {
  SafetensorsEntry& entry = entries_.back();
  if (!has_dtype_ || !has_shape_ || !has_offsets_ || offsets_.size() != 2) {
    return Fail(absl::StrCat("tensor ", Quoted(entry.name),
                             " lacks dtype, shape or data_offsets"));
  }
  entry.begin = offsets_[0];
  entry.end = offsets_[1];
  place_ = Place::kTop;
  return true;
}

bool SafetensorsHeaderSax::start_array(size_t) {
  if (skip_depth_ > 0 || expect_ == Expect::kAnything) {
    if (++skip_depth_ <= kJsonDepthMax) return true;
    return Fail(absl::StrCat("nested over ", kJsonDepthMax, " deep"));
  }
  if (expect_ != Expect::kShape && expect_ != Expect::kOffsets) {
    return Fail("an array that does not belong there");
  }
  place_ = expect_ == Expect::kShape ? Place::kShape : Place::kOffsets;
  expect_ = Expect::kKey;
  return true;
}

bool SafetensorsHeaderSax::end_array() {
  if (skip_depth_ > 0) {
    if (--skip_depth_ == 0) expect_ = Expect::kKey;
    return true;
  }
  place_ = Place::kEntry;
  return true;
}

bool SafetensorsHeaderSax::parse_error(size_t position, const std::string&,
                                       const Json::exception& error) {
  return Fail(absl::StrCat("byte ", position, ": ", error.what()));
}

}  // namespace cairn::format
