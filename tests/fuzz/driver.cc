// Runs a fuzz target without libFuzzer: a set number of seeded mutations of the
// files of a corpus. The short form of `make fuzz`, for every compiler.
//
// usage: NAME_fuzz [-runs=N] [-seed=S] [CORPUS_DIR...]
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

using Bytes = std::vector<uint8_t>;

constexpr size_t kInputBytesMax = 64 * 1024;

std::vector<Bytes> ReadCorpus(const std::vector<std::string>& folders) {
  std::vector<Bytes> corpus = {Bytes()};
  for (const std::string& folder : folders) {
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(folder)) {
      if (!entry.is_regular_file()) continue;
      std::ifstream file(entry.path(), std::ios::binary);
      Bytes bytes((std::istreambuf_iterator<char>(file)), {});
      if (bytes.size() <= kInputBytesMax) corpus.push_back(std::move(bytes));
    }
  }
  return corpus;
}

size_t Below(std::mt19937_64* random, size_t limit) {
  return limit == 0 ? 0 : (*random)() % limit;
}

void MutateOnce(std::mt19937_64* random, Bytes* input) {
  const size_t at = Below(random, input->size() + 1);
  const auto place = input->begin() + static_cast<std::ptrdiff_t>(at);
  switch (Below(random, 5)) {
    case 0:  // Another byte.
      if (at < input->size()) *place = static_cast<uint8_t>((*random)());
      break;
    case 1:  // A flipped bit.
      if (at < input->size()) *place ^= uint8_t(1u << Below(random, 8));
      break;
    case 2:
      input->insert(place, 1 + Below(random, 8),
                    static_cast<uint8_t>((*random)()));
      break;
    case 3:
      input->erase(place, place + static_cast<std::ptrdiff_t>(Below(
                                      random, input->size() - at + 1)));
      break;
    default:  // A length that is huge, or off by one.
      for (size_t i = at; i < std::min(at + 4, input->size()); ++i) {
        (*input)[i] = uint8_t{0xff};
      }
  }
}

}  // namespace

int main(int argc, char** argv) {
  uint64_t runs = 20000;
  uint64_t seed = 1;
  std::vector<std::string> folders;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument.rfind("-runs=", 0) == 0) {
      runs = std::stoull(argument.substr(6));
    } else if (argument.rfind("-seed=", 0) == 0) {
      seed = std::stoull(argument.substr(6));
    } else {
      folders.push_back(argument);
    }
  }
  const std::vector<Bytes> corpus = ReadCorpus(folders);
  for (const Bytes& input : corpus) {
    (void)LLVMFuzzerTestOneInput(input.data(), input.size());
  }
  std::mt19937_64 random(seed);
  for (uint64_t run = 0; run < runs; ++run) {
    Bytes input = corpus[Below(&random, corpus.size())];
    for (size_t n = 1 + Below(&random, 6); n > 0; --n) {
      MutateOnce(&random, &input);
    }
    (void)LLVMFuzzerTestOneInput(input.data(), input.size());
  }
  std::printf("%llu mutations of %zu inputs, seed %llu\n",
              static_cast<unsigned long long>(runs), corpus.size(),
              static_cast<unsigned long long>(seed));
  return 0;
}
