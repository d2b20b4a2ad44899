// The functions are in the order in which a handover takes place.
#include "daemon/handover_giver.hpp"

#include <fcntl.h>
#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <utility>

#include "ipoib/log.hpp"
#include "ipoib/monotonic_clock.hpp"

namespace ipoib::daemon::handover {

namespace {

// Time that a peer may take for a step. After it, this daemon goes on as before the handover.
constexpr std::chrono::seconds kGreeting{5};
constexpr std::chrono::seconds kSending{30};
/// The new daemon waits less long for its links, see Taker.
constexpr std::chrono::seconds kOffered{60};
constexpr std::chrono::seconds kRetiring{5};
/// This daemon ends after the second announcement of the new queue pairs, since the first may be
/// lost.
constexpr std::chrono::seconds kLinger{3};
/// Pause before the next attempt to send to a peer that does not read.
constexpr std::chrono::milliseconds kResend{2};

/// Calls `send` with parts of a list, none of them empty.
template <class T, class Send>
void in_parts(const std::vector<T>& all, Send&& send) {
  for (std::size_t at = 0; at < all.size(); at += kMaxRecords) {
    const auto first = all.begin() + static_cast<std::ptrdiff_t>(at);
    const auto count = static_cast<std::ptrdiff_t>(std::min(kMaxRecords, all.size() - at));
    send(std::vector<T>(first, first + count));
  }
}

}  // namespace

Giver::Giver(Dependencies dependencies)
    : dependencies_(std::move(dependencies)),
      timeout_(dependencies_.context, [this] { on_timeout(); }),
      resend_(dependencies_.context, [this] { flush(); }) {}

void Giver::on_connection(FileDescriptor socket) {
  if (state_ != State::idle) {
    Connection other(std::move(socket));
    (void)other.send(emit(Refusal{EBUSY, "another process takes over already"}));
    return;
  }
  peer_ =
      std::make_unique<Peer>(dependencies_.context, std::move(socket), [this] { on_readable(); });
  current_ = std::make_shared<bool>(true);
  state_ = State::greeting;
  timeout_.set(monotonic_now() + kGreeting);
}

void Giver::on_readable() {
  const auto current = std::weak_ptr(current_);
  while (!current.expired() && peer_) {
    auto received = peer_->connection.receive();
    if (!received && received.error().code == EAGAIN) return;
    if (!received) return refuse({EPROTO, received.error().message});
    if (!*received) return give_up("the new daemon has gone");
    if (!take(std::move(**received))) return refuse({EPROTO, "a message out of place"});
  }
}

/// Returns false for a message that is out of place.
bool Giver::take(Received&& received) {
  if (const auto* const refusal = std::get_if<Refusal>(&received.message)) {
    give_up(refusal->text);
    return true;
  }
  if (const auto* const hello = std::get_if<Hello>(&received.message)) {
    if (state_ != State::greeting) return false;
    on_hello(*hello);
    return true;
  }
  if (const auto* const ready = std::get_if<Ready>(&received.message)) {
    if (state_ != State::offered) return false;
    on_ready(*ready);
    return true;
  }
  return false;
}

// --- Offer ---------------------------------------------------------------------------------------

std::optional<Refusal> Giver::obstacle(const Hello& hello, const Hello& own) const {
  if (hello.device != own.device || hello.port != own.port || hello.guid != own.guid) {
    return Refusal{ENODEV,
                   fmt::format("the running ipoibd serves {} port {}", own.device, own.port)};
  }
  const auto partitions = dependencies_.interfaces.partitions();
  const bool has_any = std::ranges::any_of(partitions, [&hello](const auto& each) {
    return hello.pkeys.empty() || std::ranges::count(hello.pkeys, each.second) > 0;
  });
  if (!has_any) return Refusal{ENODEV, "the running ipoibd serves other partitions"};
  if (hello.newest < kOldestVersion || hello.oldest > kVersion) {
    return Refusal{
        EPROTONOSUPPORT,
        fmt::format("the running ipoibd {} speaks the versions {} to {} of the handover, "
                    "ipoibd {} the versions {} to {}: stop it first",
                    own.program_version, kOldestVersion, kVersion, hello.program_version,
                    hello.oldest, hello.newest)};
  }
  return std::nullopt;
}

void Giver::on_hello(const Hello& hello) {
  const Hello own = dependencies_.own();
  if (auto why = obstacle(hello, own)) return refuse(std::move(*why));
  state_ = State::sending;
  peer_version_ = hello.program_version;
  timeout_.set(monotonic_now() + kSending);
  version_ = std::min(hello.newest, kVersion);
  Offer offer{
      .version = version_,
      .pid = static_cast<std::uint32_t>(::getpid()),
      .program_version = own.program_version,
      .added = {dependencies_.changes.added.begin(), dependencies_.changes.added.end()},
      .deleted = {dependencies_.changes.deleted.begin(), dependencies_.changes.deleted.end()}};
  offer.added.resize(std::min(offer.added.size(), kMaxInterfaces));
  offer.deleted.resize(std::min(offer.deleted.size(), kMaxInterfaces));
  queue(offer);
  for (const auto& [number, pkey] : dependencies_.interfaces.partitions())
    unsent_.push_back(number);
  next_page_ = link::NeighbourCursor{};
  flush();
}

/// Asks for the next page when the peer has taken the one before.
void Giver::send_next() {
  if (!next_page_) return;  // it is under way
  while (!unsent_.empty() && dependencies_.interfaces.find(unsent_.front()) == nullptr) {
    unsent_.pop_front();
    next_page_ = link::NeighbourCursor{};
  }
  if (unsent_.empty()) {
    next_page_.reset();
    state_ = State::offered;
    timeout_.set(monotonic_now() + kOffered);
    return queue(Complete{});
  }
  const auto page = *std::exchange(next_page_, std::nullopt);
  const auto number = unsent_.front();
  dependencies_.interfaces.find(number)->save(
      page, [this, current = std::weak_ptr(current_), number,
             is_first = page.position == 0](const SavedCache& saved) {
        if (!current.expired()) on_page(number, saved, is_first);
      });
}

void Giver::on_page(InterfaceNumber number, const SavedCache& page, bool is_first) {
  const auto* const interface = dependencies_.interfaces.find(number);
  next_page_ = page.next;
  if (!page.next || interface == nullptr) {
    unsent_.pop_front();
    next_page_ = link::NeighbourCursor{};
  }
  if (interface != nullptr) {
    timeout_.set(monotonic_now() + kSending);
    if (is_first) {
      queue(Interface{interface->id().pkey, page.mtu, page.selection}, interface->tun_descriptor());
      in_parts(interface->statics(), [this](auto part) { queue(Statics{std::move(part)}); });
      in_parts(page.send_groups, [this](auto part) { queue(SendGroups{std::move(part)}); });
    }
    if (version_ >= kVersionOfStations) {
      in_parts(page.stations, [this](auto part) { queue(Stations{std::move(part)}); });
      in_parts(page.station_groups, [this](auto part) { queue(StationGroups{std::move(part)}); });
    }
    in_parts(page.neighbours, [this](auto part) { queue(Neighbours{std::move(part)}); });
  }
  flush();
}

// --- Commitment ----------------------------------------------------------------------------------

void Giver::on_ready(const Ready& ready) {
  for (const auto& [number, pkey] : dependencies_.interfaces.partitions()) {
    if (std::ranges::count(ready.pkeys, pkey) > 0) taken_.insert(number);
  }
  if (taken_.empty()) return refuse({EINVAL, "there is no such interface any more"});
  state_ = State::retiring;
  timeout_.set(monotonic_now() + kRetiring);
  waiting_ = taken_;
  for (const auto number : taken_) {
    dependencies_.interfaces.find(number)->set_mode(PumpMode::retired);
  }
}

void Giver::on_mode(InterfaceNumber interface, PumpMode mode) {
  if (state_ != State::retiring || mode != PumpMode::retired) return;
  waiting_.erase(interface);
  if (!waiting_.empty()) return;
  dependencies_.log.info("ipoibd {} has taken over {} interfaces: ending", peer_version_,
                         taken_.size());
  state_ = State::lingering;
  timeout_.set(monotonic_now() + kLinger);
  queue(Released{});
  flush();
}

void Giver::on_timeout() {
  if (state_ == State::lingering) return finish();
  refuse({ETIMEDOUT, "the handover takes too long"});
}

void Giver::finish() {
  state_ = State::ended;
  timeout_.set(kNever);
  dependencies_.on_end();
  dependencies_.interfaces.hand_over(taken_);
}

bool Giver::end(const std::string& why) {
  if (state_ == State::lingering) finish();
  if (state_ == State::ended) return true;
  if (state_ != State::idle) refuse({ECANCELED, why});
  return false;
}

// --- Failure -------------------------------------------------------------------------------------

void Giver::refuse(Refusal refusal) {
  if (peer_) (void)peer_->connection.send(emit(refusal));
  give_up(refusal.text);
}

/// The host's packets wait in the TUN while none of the daemons reads it.
void Giver::give_up(const std::string& why) {
  const bool was_retired = state_ == State::retiring || state_ == State::lingering;
  close();
  if (state_ == State::ended) return;
  state_ = State::idle;
  for (const auto number : std::exchange(taken_, {})) {
    auto* const interface = dependencies_.interfaces.find(number);
    if (was_retired && interface != nullptr) interface->set_mode(PumpMode::active);
  }
  if (was_retired) {
    dependencies_.log.warn("the handover has failed: {}; serving the interfaces again", why);
  } else {
    dependencies_.log.info("no handover: {}", why);
  }
}

/// The watch must not be destroyed within its own call.
void Giver::close() {
  timeout_.set(kNever);
  resend_.set(kNever);
  outgoing_.clear();
  unsent_.clear();
  waiting_.clear();
  next_page_.reset();
  current_.reset();
  if (!peer_) return;
  peer_->watch.stop();
  boost::asio::post(dependencies_.context,
                    [peer = std::shared_ptr<Peer>(std::move(peer_))]() mutable { peer.reset(); });
}

// --- Sending -------------------------------------------------------------------------------------

void Giver::queue(const Message& message, int descriptor) {
  FileDescriptor copy;
  if (descriptor >= 0) copy.reset(::fcntl(descriptor, F_DUPFD_CLOEXEC, 0));
  outgoing_.push_back({emit(message), std::move(copy)});
}

void Giver::flush() {
  while (peer_) {
    while (!outgoing_.empty()) {
      const auto& next = outgoing_.front();
      const auto sent = peer_->connection.send(next.bytes, next.descriptor.get());
      if (!sent && sent.error().code == EAGAIN) return resend_.set(monotonic_now() + kResend);
      if (!sent) return give_up(sent.error().message);
      outgoing_.pop_front();
    }
    if (state_ == State::sending) send_next();
    if (outgoing_.empty()) return;
  }
}

}  // namespace ipoib::daemon::handover
