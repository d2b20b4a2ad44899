// Captures the packets of an interface into a file for tshark.
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <optional>
#include <utility>
#include <vector>

#include "erf/capture_format.hpp"
#include "monitor.hpp"
#include "output.hpp"
#include "program/output_ring.hpp"
#include "program/progress.hpp"
#include "run.hpp"

namespace ipoib::ibarp {

namespace json = boost::json;

namespace {

using program::OutputRing;

/// How long it takes at most until a signal ends the capture.
constexpr int kLookMs = 200;

volatile std::sig_atomic_t is_ended = 0;

/// An interrupted capture is a complete file.
void end_at_signals() {
  struct sigaction action {};
  action.sa_handler = [](int) { is_ended = 1; };
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::sigaction(signal, &action, nullptr);
}

std::string summary(std::uint64_t packets, std::uint64_t lost) {
  return std::to_string(packets) + (packets == 1 ? " packet" : " packets") + ", " +
         std::to_string(lost) + " left out";
}

/// Owns the counts of a capture, and its output.
class Capture {
 public:
  Capture(const Client& client, const Command& command, OutputRing output)
      : client_(client), most_(command.watch.count), output_(std::move(output)) {}

  /// Returns at the end of the capture; throws Failure if it was not the user's.
  void run() {
    while (is_ended == 0 && goes_on_) take_next();
    write();
    progress_.clear();
  }
  [[nodiscard]] std::uint64_t packets() const { return packets_; }
  [[nodiscard]] std::uint64_t lost() const { return lost_; }

 private:
  /// What is waiting is written before there is a pause.
  void take_next() {
    ibarp_packet packet{};
    packet.size = sizeof(packet);
    int result = ibarp_next_packet(client_.get(), &packet, 0);
    if (result == -EAGAIN) {
      write();
      progress_.show(summary(packets_, lost_));
      if (goes_on_) result = ibarp_next_packet(client_.get(), &packet, kLookMs);
    }
    if (result == -EAGAIN) return;
    if (result != 0) write();
    client_.check(result);
    add(packet);
    progress_.show(summary(packets_, lost_));
  }
  void add(const ibarp_packet& packet) {
    using std::chrono::system_clock;
    const system_clock::time_point when(std::chrono::duration_cast<system_clock::duration>(
        std::chrono::nanoseconds(packet.when_ns)));
    record_.clear();
    erf::append_record(record_, {packet.bytes, packet.length},
                       packet.is_received != 0 ? erf::Direction::received : erf::Direction::sent,
                       when);
    lost_ += packet.lost;
    const auto added = output_.add(record_);
    if (!added) return end(added.error());
    if (*added) ++packets_;
    goes_on_ = *added && (!most_ || packets_ < *most_);
  }
  void write() {
    if (!is_written_) return;
    if (const auto written = output_.flush(); !written) end(written.error());
  }
  /// A reader such as head(1) may close the pipe early; that is no error.
  template <class Why>
  void end(const Why& why) {
    goes_on_ = is_written_ = false;
    if (why.code != EPIPE) throw Failure(kFailed, why.message);
  }

  const Client& client_;
  const std::optional<std::uint32_t> most_;
  OutputRing output_;
  program::Progress progress_;
  std::vector<std::uint8_t> record_;
  std::uint64_t packets_ = 0;
  std::uint64_t lost_ = 0;
  bool goes_on_ = true;
  bool is_written_ = true;  ///< the output takes more
};

}  // namespace

Status capture(const Command& command) {
  const Client client(interfaces_of(command).front());
  ibarp_address neighbour{};
  if (!command.neighbour.empty()) neighbour = resolve(command.neighbour, false);
  {
    const program::BlockingProgress progress(waiting_for(client.interface()));
    client.check(ibarp_capture(client.get(), command.neighbour.empty() ? nullptr : &neighbour));
  }
  auto output = OutputRing::open(command.file, erf::file_header(), command.ring);
  if (!output) throw Failure(kFailed, output.error().message);
  end_at_signals();
  Capture running(client, command, std::move(*output));
  running.run();
  const bool is_json = command.json && command.file != "-";
  if (is_json) {
    const json::object shown{{"interface", client.interface()},
                             {"packets", running.packets()},
                             {"lost", running.lost()}};
    print("[" + json::serialize(shown) + "]\n");
  } else {
    std::fprintf(stderr, "%s\n", summary(running.packets(), running.lost()).c_str());
  }
  return kDone;
}

}  // namespace ipoib::ibarp
