// Transports for the numbered messages of the latency benchmark: UD datagrams over verbs, or UDP. A
// transport has one peer: a client's is an option, a server's is the last sender.
#pragma once

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

namespace ipoib::bench {

inline constexpr std::size_t kMaxBurst = 256;  ///< messages in flight

/// How to wait for a message.
enum class Poll : std::uint8_t {
  busy,   ///< by polling
  event,  ///< by sleeping until an event
};

struct Options {
  bool is_server = false;
  std::string peer;  ///< client only; for verbs it is what the server prints
  Poll poll = Poll::event;
  std::size_t size = 64;  ///< bytes per message
  // Only for verbs.
  std::string device;
  unsigned port = 1;
  bool is_inline = false;
  unsigned signal_every = 1;  ///< sends per completion
  // Only for a client.
  unsigned burst = 1;
  std::chrono::microseconds pause{0};
  std::chrono::seconds duration{1};
};

class Transport {
 public:
  virtual ~Transport() = default;
  virtual void send(std::uint64_t number) = 0;
  /// Waits for messages and appends their numbers; returns after `timeout` at the latest.
  virtual void receive(std::vector<std::uint64_t>& out, std::chrono::milliseconds timeout) = 0;
};

/// Throws on failure.
inline void check(bool done, const char* what, int error = errno) {
  if (!done) throw std::system_error(error, std::generic_category(), what);
}

/// These throw if they cannot start.
std::unique_ptr<Transport> make_verbs_transport(const Options& options);
std::unique_ptr<Transport> make_udp_transport(const Options& options);

}  // namespace ipoib::bench
