#include "io/rpc/stall_watch.h"

namespace cairn::io::internal {

StallWatch::~StallWatch() {
  if (armed_) CAIRN_CHECK(executor_->RemoveTimer(this));
}

void StallWatch::Begin() {
  CAIRN_CHECK(!busy_);
  busy_ = true;
  begun_at_ = executor_->NowNs();
  if (armed_) return;
  armed_ = true;
  executor_->AddTimer(begun_at_ + timeout_, this);
}

void StallWatch::End() {
  CAIRN_CHECK(busy_);
  busy_ = false;
}

void StallWatch::Fire() {
  armed_ = false;
  if (!busy_) return;
  if (executor_->NowNs() < begun_at_ + timeout_) {
    armed_ = true;  // A later operation than the one that armed it.
    executor_->AddTimer(begun_at_ + timeout_, this);
    return;
  }
  stalled_ = true;
  stream_->Shutdown();
}

IdleWatch::~IdleWatch() {
  if (armed_) CAIRN_CHECK(executor_->RemoveTimer(this));
}

void IdleWatch::BeginWork() { ++work_; }

void IdleWatch::EndWork() {
  CAIRN_CHECK(work_ > 0);
  --work_;
  idle_since_ = executor_->NowNs();
  if (!armed_) Arm();
}

void IdleWatch::Arm() {
  armed_ = true;
  executor_->AddTimer(idle_since_ + timeout_, this);
}

void IdleWatch::Fire() {
  armed_ = false;
  if (work_ > 0) return;  // Its end arms the timer again.
  if (executor_->NowNs() < idle_since_ + timeout_) {
    Arm();
  } else {
    stream_->Shutdown();
  }
}

}  // namespace cairn::io::internal
