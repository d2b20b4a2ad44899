// A datagram that a process sends to itself is passed on once, as sent, as in a capture file
// (capture.cpp).
#include "softib/endpoint/live_captures.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include "ipoib/peer_process.hpp"
#include "softib/core/large_packet.hpp"
#include "softib/endpoint/capture.hpp"
#include "softib/transport/unix_socket.hpp"

namespace softib::endpoint {

namespace {

constexpr int kNow = MSG_DONTWAIT | MSG_NOSIGNAL;
/// How long the end of a capture waits for room for its last message; the capture waits as long.
constexpr int kLastMessageMilliseconds = 1000;

std::int64_t wall_time() {
  using std::chrono::duration_cast;
  using std::chrono::nanoseconds;
  return duration_cast<nanoseconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

/// Whoever may write to the fabric file may name a socket there. Packets are given to root and to
/// the owner of the subnet only.
transport::GuardedFd LiveCaptures::connect(fabric::CaptureId id) const {
  // As descriptor: the filter of ipoibd permits no stat(2) by name.
  const auto folder = folder_.open();
  struct stat status {};
  auto socket = transport::connect_to_capture(folder_, id);
  if (!folder || !socket || ::fstat(folder->get(), &status) != 0) return {};
  const auto peer = ipoib::peer_process(socket.get());
  if (!peer || (peer->uid != 0 && peer->uid != status.st_uid)) socket.reset();
  return socket;
}

bool LiveCaptures::follow(std::uint64_t captures) {
  const auto wanted = fabric::decode_captures(captures);
  for (auto& client : take_ended(wanted)) {
    // It is still reading, so there will be room for this last message. Packets do not wait for it.
    pollfd room{client.connection.get(), POLLOUT, 0};
    if (client.lost != 0 && ::poll(&room, 1, kLastMessageMilliseconds) == 1) send(client);
  }
  const std::lock_guard lock(mutex_);
  for (const auto& capture : wanted) {
    if (std::ranges::count(clients_, capture, &Client::capture) != 0) continue;
    clients_.push_back({capture, connect(capture.id), {}, 0});
  }
  return std::ranges::any_of(clients_,
                             [](const Client& client) { return bool(client.connection); });
}

/// Removes those that are not wanted any more, and returns them.
std::vector<LiveCaptures::Client> LiveCaptures::take_ended(const fabric::NodeCaptures& wanted) {
  std::vector<Client> ended;
  const std::lock_guard lock(mutex_);
  std::erase_if(clients_, [&](Client& client) {
    if (std::ranges::count(wanted, client.capture) != 0) return false;
    ended.push_back(std::move(client));
    return true;
  });
  return ended;
}

bool LiveCaptures::wants_received() const {
  return std::ranges::any_of(
      clients_, [](const Client& client) { return client.capture.received && client.connection; });
}

void LiveCaptures::add(ConstBytes packet, Direction direction, std::int64_t when) {
  const bool is_received = direction == Direction::received;
  record_.resize(ipoib::erf::kCaptureRecordHeader);
  ipoib::erf::CaptureRecord{is_received, when, {}}.emit_header(packet.size(), record_);
  record_.insert(record_.end(), packet.begin(), packet.end());
  for (Client& client : clients_) {
    if (!client.connection || (is_received && !client.capture.received)) continue;
    if (client.message.add(record_)) continue;
    send(client);
    (void)client.message.add(record_);
  }
}

void LiveCaptures::add_sent(std::span<const OutgoingPacket> batch, std::int64_t when) {
  for (const auto& packet : batch) {
    for_each_packet(packet, [&](ConstBytes bytes) { add(bytes, Direction::sent, when); });
  }
  flush();
}

void LiveCaptures::flush() {
  for (Client& client : clients_) {
    if (client.message.records() != 0) send(client);
  }
}

/// Sends the message, also an empty one, which says what was left out.
void LiveCaptures::send(Client& client) {
  if (!client.connection) return client.message.clear();
  const auto count = client.message.records();
  const auto message = client.message.finish(client.lost);
  const auto sent = ::send(client.connection.get(), message.data(), message.size(), kNow);
  if (sent >= 0) {
    client.lost = 0;
  } else if (errno == EAGAIN || errno == ENOBUFS || errno == ENOMEM) {
    client.lost += count;
  } else {
    client.connection.reset();
  }
  client.message.clear();
}

void LiveCaptures::sent(std::span<const OutgoingPacket> batch) {
  if (next_ != nullptr) next_->sent(batch);
  const std::lock_guard lock(mutex_);
  add_sent(batch, wall_time());
}

/// As Capture::try_send().
TrySent LiveCaptures::try_send(std::span<const OutgoingPacket> batch,
                               const std::function<TrySent()>& send) {
  const std::lock_guard lock(mutex_);
  const auto now = wall_time();
  const auto sent = next_ != nullptr ? next_->try_send(batch, send) : send();
  add_sent(batch.first(sent.done), now);
  return sent;
}

void LiveCaptures::received(std::span<const ArrivedPacket> batch, const HcaPorts& own) {
  if (next_ != nullptr) next_->received(batch, own);
  const std::lock_guard lock(mutex_);
  if (!wants_received()) return;
  const auto now = wall_time();
  for (const auto& packet : batch) {
    if (is_sent_by(self_, packet, own)) continue;
    for_each_packet(packet, [&](ConstBytes bytes) { add(bytes, Direction::received, now); });
  }
  flush();
}

void LiveCaptures::mad_sent(ConstBytes packet) {
  if (next_ != nullptr) next_->mad_sent(packet);
  const std::lock_guard lock(mutex_);
  add(packet, Direction::sent, wall_time());
  flush();
}

void LiveCaptures::mad_received(ConstBytes packet) {
  if (next_ != nullptr) next_->mad_received(packet);
  const std::lock_guard lock(mutex_);
  if (!wants_received()) return;
  add(packet, Direction::received, wall_time());
  flush();
}

}  // namespace softib::endpoint
