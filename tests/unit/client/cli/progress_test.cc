#include "client/cli/progress.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <array>
#include <string>

#include "format/base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace cairn::client::cli {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kClearLine[] = "\r\033[K";

// While it lives, stderr is a terminal, and what is drawn there can be read.
class Terminal {
 public:
  Terminal() : master_(posix_openpt(O_RDWR | O_NOCTTY)), saved_(dup(2)) {
    CAIRN_CHECK(master_ >= 0 && saved_ >= 0);
    CAIRN_CHECK(grantpt(master_) == 0 && unlockpt(master_) == 0);
    const int slave = open(ptsname(master_), O_RDWR | O_NOCTTY);
    CAIRN_CHECK(slave >= 0 && dup2(slave, 2) == 2);
    close(slave);
    CAIRN_CHECK(fcntl(master_, F_SETFL, O_NONBLOCK) == 0);
  }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;
  ~Terminal() {
    CAIRN_CHECK(dup2(saved_, 2) == 2);
    close(saved_);
    close(master_);
  }
  std::string TakeDrawn() {
    std::array<char, 4096> text;
    const ssize_t got = read(master_, text.data(), text.size());
    return got <= 0 ? "" : std::string(text.data(), static_cast<size_t>(got));
  }

 private:
  const int master_;
  const int saved_;
};

std::string FirstLine(uint64_t done, uint64_t total) {
  Terminal terminal;
  Progress progress("save");
  progress.Update(done, total);
  return terminal.TakeDrawn();
}

TEST(Progress, DrawsNothingWhereThereIsNoTerminal) {
  ::testing::internal::CaptureStderr();
  {
    Progress progress("save");
    progress.Update(1, 2);
    progress.Update(2, 2);
  }
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

TEST(Progress, LineHasLabelAmountsBarAndShare) {
  const std::string line = FirstLine(512 << 20, 1024 << 20);
  EXPECT_THAT(line, HasSubstr("save  512.00 MiB of 1.00 GiB"));
  EXPECT_THAT(line, HasSubstr("[" + std::string(15, '#') +
                              std::string(15, '.') + "]  50%"));
  EXPECT_THAT(line, HasSubstr("s left"));
  EXPECT_THAT(line, EndsWith("B/s"));
}

TEST(Progress, FullBarHasNoRoomLeft) {
  EXPECT_THAT(FirstLine(10, 10),
              HasSubstr("[" + std::string(30, '#') + "] 100%"));
}

TEST(Progress, BarOfMoreThanAllIsNotLonger) {
  EXPECT_THAT(FirstLine(20, 10), HasSubstr("[" + std::string(30, '#') + "]"));
}

TEST(Progress, NothingDoneYetIsAnEmptyBar) {
  EXPECT_THAT(FirstLine(0, 10), HasSubstr("[" + std::string(30, '.') + "]"));
}

TEST(Progress, UnknownTotalShowsTheAmountOnly) {
  const std::string line = FirstLine(2048, 0);
  EXPECT_THAT(line, HasSubstr("save  2.00 KiB  "));
  EXPECT_THAT(line, Not(HasSubstr("of")));
  EXPECT_THAT(line, Not(HasSubstr("%")));
}

TEST(Progress, LineIsClearedAtTheEnd) {
  Terminal terminal;
  {
    Progress progress("save");
    progress.Update(1, 2);
    EXPECT_NE(terminal.TakeDrawn(), "");
  }
  EXPECT_EQ(terminal.TakeDrawn(), kClearLine);
}

TEST(Progress, WithoutAnUpdateNothingIsCleared) {
  Terminal terminal;
  { const Progress progress("save"); }
  EXPECT_EQ(terminal.TakeDrawn(), "");
}

}  // namespace
}  // namespace cairn::client::cli
