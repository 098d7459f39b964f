// The events of a JSON parser, turned into the raw entries of a safetensors
// header: right in form, not yet checked for offsets and sizes.
//
// One pass, no tree: memory is in proportion to the entries, which are capped
// at kTensorsPerFileMax, and nesting (in unknown fields only) is capped too.
// Threads: one object, one thread, one parse.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "format/safetensors/safetensors.h"
#include "nlohmann/json.hpp"

namespace cairn::format {

// The interface that nlohmann::json::sax_parse calls; its names are not ours.
// A callback that answers false ends the parse; error() then says why.
class SafetensorsHeaderSax {
 public:
  using Json = nlohmann::json;

  bool null();
  bool boolean(bool value);
  bool number_integer(Json::number_integer_t value);
  bool number_unsigned(Json::number_unsigned_t value);
  bool number_float(Json::number_float_t value, const std::string& text);
  bool string(std::string& value);
  bool binary(Json::binary_t& value);
  bool start_object(size_t size);
  bool key(std::string& name);
  bool end_object();
  bool start_array(size_t size);
  bool end_array();
  bool parse_error(size_t position, const std::string& token,
                   const Json::exception& error);

  // What was parsed; valid when sax_parse answered true.
  std::vector<SafetensorsEntry>& entries() { return entries_; }
  std::map<std::string, std::string>& metadata() { return metadata_; }
  // The first error; empty if there was none.
  const std::string& error() const { return error_; }

 private:
  // The object or array that is open now.
  enum class Place { kStart, kTop, kMetadata, kEntry, kShape, kOffsets, kDone };
  // What the last key announced.
  enum class Expect {
    kKey,
    kMetadata,
    kEntry,
    kText,
    kDtype,
    kShape,
    kOffsets,
    kAnything
  };

  bool Scalar();  // A value of a type that is legal in unknown fields only.
  bool EntryKey(const std::string& name);
  bool EndEntry();
  bool Fail(std::string error);

  std::vector<SafetensorsEntry> entries_;
  std::map<std::string, std::string> metadata_;
  std::vector<uint64_t> offsets_;  // data_offsets of the current entry.
  std::string metadata_key_;
  std::string error_;
  Place place_ = Place::kStart;
  Expect expect_ = Expect::kKey;
  uint32_t skip_depth_ = 0;  // Objects and arrays open in an unknown field.
  bool has_metadata_ = false;
  bool has_dtype_ = false;
  bool has_shape_ = false;
  bool has_offsets_ = false;
};

}  // namespace cairn::format
