#include "softib/endpoint/faulty_link.hpp"

#include <utility>

#include "ipoib/monotonic_clock.hpp"
#include "softib/core/mad_packet.hpp"
#include "softib/transport/all_signals_blocked.hpp"
#include "wire/cm_messages.hpp"

namespace softib::endpoint {

namespace {

/// Whether the packet is a message of communication management, of any process.
bool is_cm_message(const WirePacket& packet) {
  if (packet.kind == WirePacket::Kind::datagram) return false;
  const auto mad = MadPacket::parse(packet.bytes);
  const auto header = mad ? ipoib::wire::MadHeader::parse(mad->mad) : std::nullopt;
  return header && header->management_class == ipoib::wire::mgmt_class::kCommMgt;
}

}  // namespace

void FaultyLink::set(const LinkFaults& faults) {
  const std::lock_guard lock(mutex_);
  if (faults == faults_) return;
  faults_ = faults;
  if (faults.seed != 0) random_ = FaultRandom(faults.seed);
}

void FaultyLink::send(WirePacket packet) {
  bool is_lost = false;
  bool is_duplicated = false;
  {
    const std::lock_guard lock(mutex_);
    is_lost = random_.happens(faults_.loss);
    if (faults_.cm_loss != 0 && is_cm_message(packet)) {
      is_lost |= random_.happens(faults_.cm_loss);
    }
    is_duplicated = random_.happens(faults_.duplicate);
  }
  if (is_lost) return count_(Event::lost);
  if (is_duplicated) {
    count_(Event::duplicated);
    dispatch(packet);
  }
  dispatch(std::move(packet));
}

void FaultyLink::dispatch(WirePacket packet) {
  {
    std::unique_lock lock(mutex_);
    if (faults_.corrupt != 0) packet.with_icrc = with_icrc(packet.bytes);
    if (random_.happens(faults_.corrupt)) add_bit_errors(packet.with_icrc, random_);
    ipoib::Duration wait = std::chrono::milliseconds(faults_.delay);
    if (random_.happens(faults_.reorder)) wait += kOvertakingTime;
    if (wait != ipoib::Duration::zero()) {
      const bool is_kept = keep(std::move(packet), wait);
      lock.unlock();
      if (!is_kept) count_(Event::lost);
      return;
    }
  }
  send_(packet);
}

bool FaultyLink::keep(WirePacket packet, ipoib::Duration wait) {
  if (stopping_ || held_.size() == kMaxHeldPackets) return false;
  held_.emplace(ipoib::monotonic_now() + wait, std::move(packet));
  if (!thread_.joinable()) {
    const transport::AllSignalsBlocked inherited;
    thread_ = std::thread([this] { run(); });
  }
  changed_->notify_one();
  return true;
}

void FaultyLink::hold(WirePacket packet, ipoib::Duration wait) {
  bool is_kept = false;
  {
    const std::lock_guard lock(mutex_);
    is_kept = keep(std::move(packet), wait);
  }
  if (!is_kept) count_(Event::lost);
}

void FaultyLink::run() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (held_.empty()) {
      changed_->wait(lock);
      continue;
    }
    const auto first = held_.begin();
    const auto left = first->first - ipoib::monotonic_now();
    if (left > ipoib::Duration::zero()) {
      changed_->wait_for(lock, left);
      continue;
    }
    const WirePacket packet = std::move(first->second);
    held_.erase(first);
    lock.unlock();
    send_(packet);
    lock.lock();
  }
}

void FaultyLink::stop() {
  if (generation_ != transport::fork_generation()) {
    if (!thread_.joinable()) return;
    // The thread runs in the parent. Here nothing ends its wait, so the destructor of the condition
    // variable would not return.
    thread_.detach();
    (void)changed_.release();
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    held_.clear();
    changed_->notify_one();
  }
  if (thread_.joinable()) thread_.join();
}

}  // namespace softib::endpoint
