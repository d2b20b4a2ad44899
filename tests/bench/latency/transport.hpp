// What carries the messages of the latency benchmark, each with its number: datagrams of verbs, or
// UDP. One peer at a time: a client's is named to it, a server's is who has sent last.
#pragma once

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

namespace ipoib::bench {

inline constexpr std::size_t kMaxBurst = 256;  ///< messages that are under way at a time

/// How to wait for a message.
enum class Poll : std::uint8_t {
  busy,   ///< by asking again and again
  event,  ///< asleep, until the kernel or the device wakes us
};

struct Options {
  bool is_server = false;
  std::string peer;  ///< a client's; where a server is to be found is said by the server (verbs)
  Poll poll = Poll::event;
  std::size_t size = 64;  ///< octets of a message
  // Of verbs alone.
  std::string device;
  unsigned port = 1;
  bool is_inline = false;
  unsigned signal_every = 1;  ///< sends of which one makes a completion
  // Of a client alone.
  unsigned burst = 1;
  std::chrono::microseconds pause{0};
  std::chrono::seconds duration{1};
};

class Transport {
 public:
  virtual ~Transport() = default;
  virtual void send(std::uint64_t number) = 0;
  /// Waits for messages and appends their numbers; gives up after `patience`.
  virtual void receive(std::vector<std::uint64_t>& out, std::chrono::milliseconds patience) = 0;
};

/// Throws when something could not be done.
inline void check(bool done, const char* what, int error = errno) {
  if (!done) throw std::system_error(error, std::generic_category(), what);
}

/// These throw when they cannot begin.
std::unique_ptr<Transport> make_verbs_transport(const Options& options);
std::unique_ptr<Transport> make_udp_transport(const Options& options);

}  // namespace ipoib::bench
