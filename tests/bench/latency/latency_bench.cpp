// Records the round-trip times of messages. A client sends a burst of messages, waits until the
// server has returned all of them, pauses, and starts again. A round trip lasts from the call that
// sends a message to the return of the call that receives it. Prints one line of JSON.
#include <boost/program_options.hpp>
#include <cstdio>
#include <functional>
#include <iostream>
#include <stdexcept>
#include <thread>

#include "histogram.hpp"
#include "transport.hpp"

namespace ipoib::bench {

namespace {

namespace po = boost::program_options;
using std::chrono::steady_clock;

constexpr std::chrono::milliseconds kTimeout{200};  // for lost messages
constexpr std::uint64_t kWarmUp = 500;              // messages not recorded

class Client {
 public:
  Client(Transport& transport, const Options& options)
      : transport_(transport), options_(options), sent_at_(options.burst) {}

  void run() {
    for (std::uint64_t number = 0; number < kWarmUp; number += options_.burst) exchange(number);
    times_ = {};
    lost_ = 0;
    const auto end = steady_clock::now() + options_.duration;
    for (std::uint64_t number = kWarmUp + kMaxBurst; steady_clock::now() < end;
         number += options_.burst) {
      exchange(number);
      pause();
    }
  }

  void print() const {
    const auto at = [&](double part) { return static_cast<long>(times_.quantile(part).count()); };
    std::printf(
        "{\"messages\":%lu,\"lost\":%lu,\"p10\":%ld,\"median\":%ld,\"p90\":%ld,"
        "\"p99\":%ld,\"buckets\":[",
        times_.total(), lost_, at(0.1), at(0.5), at(0.9), at(0.99));
    const char* separator = "";
    for (std::size_t i = 0; i < Histogram::kBuckets; ++i) {
      if (times_.count(i) == 0) continue;
      std::printf("%s[%ld,%lu]", separator, static_cast<long>(Histogram::least(i).count()),
                  times_.count(i));
      separator = ",";
    }
    std::printf("]}\n");
  }

 private:
  void exchange(std::uint64_t first) {
    for (unsigned i = 0; i < options_.burst; ++i) {
      sent_at_[i] = steady_clock::now();
      transport_.send(first + i);
    }
    unsigned missing = options_.burst;
    while (missing != 0) {
      arrived_.clear();
      transport_.receive(arrived_, kTimeout);
      if (arrived_.empty()) break;
      const auto now = steady_clock::now();
      for (const std::uint64_t number : arrived_) {
        if (number - first >= options_.burst) continue;  // of a burst that timed out
        times_.record(now - sent_at_[number - first]);
        --missing;
      }
    }
    lost_ += missing;
  }

  void pause() const {
    if (options_.poll == Poll::event && options_.pause.count() != 0) {
      std::this_thread::sleep_for(options_.pause);
    }
    const auto end = steady_clock::now() + options_.pause;
    while (options_.poll == Poll::busy && steady_clock::now() < end) {
    }
  }

  Transport& transport_;
  const Options& options_;
  std::vector<steady_clock::time_point> sent_at_;
  std::vector<std::uint64_t> arrived_;
  Histogram times_;
  std::uint64_t lost_ = 0;
};

/// Runs until a signal ends it.
[[noreturn]] void serve(Transport& transport) {
  std::vector<std::uint64_t> arrived;
  for (;;) {
    arrived.clear();
    transport.receive(arrived, kTimeout);
    for (const std::uint64_t number : arrived) transport.send(number);
  }
}

/// An option with a range.
po::typed_value<unsigned>* number(const char* option, unsigned initial, unsigned least,
                                  unsigned most, std::function<void(unsigned)> take) {
  return po::value<unsigned>()->value_name("N")->default_value(initial)->notifier(
      [=, take = std::move(take)](unsigned value) {
        if (value < least || value > most) {
          throw po::error(std::string("--") + option + " is " + std::to_string(least) + " to " +
                          std::to_string(most));
        }
        take(value);
      });
}

po::options_description options_of(Options& out) {
  po::options_description all(
      "Usage: bench_latency verbs|udp server [OPTION...]\n"
      "       bench_latency verbs|udp client --peer PEER [OPTION...]\n\n"
      "The server prints its address and returns the messages that it receives until it is\n"
      "ended. The client prints times in nanoseconds, and for each bucket of the histogram its\n"
      "lower bound and count");
  all.add_options()("help", "print this text")(
      "peer", po::value(&out.peer)->value_name("PEER"),
      "udp: address; verbs: the address that the server prints")(
      "poll",
      po::value<std::string>()
          ->value_name("busy|event")
          ->default_value("event")
          ->notifier([&](const std::string& how) {
            if (how != "busy" && how != "event") throw po::error("--poll is busy or event");
            out.poll = how == "busy" ? Poll::busy : Poll::event;
          }),
      "how to wait for a message")(
      "size", number("size", 64, 8, 4096, [&](unsigned value) { out.size = value; }),
      "bytes per message, the same on both sides")(
      "burst", number("burst", 1, 1, kMaxBurst, [&](unsigned value) { out.burst = value; }),
      "messages sent before waiting for the first")(
      "pause",
      number("pause", 0, 0, 1'000'000,
             [&](unsigned value) { out.pause = std::chrono::microseconds(value); }),
      "microseconds between bursts, sleeping, or busy with --poll busy")(
      "seconds",
      number("seconds", 1, 1, 3600,
             [&](unsigned value) { out.duration = std::chrono::seconds(value); }),
      "duration")("device", po::value(&out.device)->value_name("NAME"),
                  "verbs: RDMA device (default: the first)")(
      "port", number("port", 1, 1, 254, [&](unsigned value) { out.port = value; }),
      "verbs: its port")("inline", po::bool_switch(&out.is_inline), "verbs: post messages inline")(
      "signal", number("signal", 1, 1, 1024, [&](unsigned value) { out.signal_every = value; }),
      "verbs: sends per completion");
  return all;
}

void run(int argc, char** argv) {
  Options options;
  const auto all = options_of(options);
  po::options_description hidden;
  std::vector<std::string> words;
  hidden.add_options()("word", po::value(&words));
  hidden.add(all);
  po::variables_map given;
  po::store(po::command_line_parser(argc, argv)
                .options(hidden)
                .positional(po::positional_options_description().add("word", -1))
                .run(),
            given);
  if (given.contains("help")) {
    std::cout << all;
    return;
  }
  po::notify(given);
  const auto is = [&](std::size_t at, const char* one, const char* other) {
    return words.size() == 2 && (words[at] == one || words[at] == other);
  };
  if (!is(0, "verbs", "udp") || !is(1, "server", "client")) {
    throw po::error("the arguments are verbs or udp, then server or client");
  }
  options.is_server = words[1] == "server";
  if (options.is_server != options.peer.empty()) throw po::error("a client needs --peer");
  const auto transport =
      words[0] == "udp" ? make_udp_transport(options) : make_verbs_transport(options);
  if (options.is_server) serve(*transport);
  Client client(*transport, options);
  client.run();
  client.print();
}

}  // namespace

}  // namespace ipoib::bench

int main(int argc, char** argv) try {
  ipoib::bench::run(argc, argv);
  return 0;
} catch (const boost::program_options::error& failure) {
  std::fprintf(stderr, "bench_latency: %s; try --help\n", failure.what());
  return 2;
} catch (const std::exception& failure) {
  std::fprintf(stderr, "bench_latency: %s\n", failure.what());
  return 1;
}
