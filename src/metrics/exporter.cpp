#include "metrics/exporter.hpp"

#include <netdb.h>
#include <prometheus/collectable.h>
#include <prometheus/exposer.h>
#include <pthread.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <utility>
#include <vector>

#include "ipoib/file_descriptor.hpp"

namespace ipoib::metrics {

namespace {

class Source final : public prometheus::Collectable {
 public:
  explicit Source(std::function<Families()> collect) : collect_(std::move(collect)) {}
  /// An exception would end the process.
  [[nodiscard]] std::vector<prometheus::MetricFamily> Collect() const override {
    try {
      return collect_().all();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "no metrics: %s\n", error.what());
      return {};
    }
  }

 private:
  std::function<Families()> collect_;
};

/// The errno value with which listening at the address fails, since the exposer does not tell; 0 if
/// it works.
int listen_error(const ListenAddress& address) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(to_string(address.host).c_str(), std::to_string(address.port).c_str(), &hints,
                    &found) != 0) {
    return EADDRNOTAVAIL;
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> to(found, ::freeaddrinfo);
  const FileDescriptor socket(::socket(to->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  const bool works =
      socket && ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0 &&
      ::bind(socket.get(), to->ai_addr, to->ai_addrlen) == 0 && ::listen(socket.get(), 1) == 0;
  return works ? 0 : errno;
}

/// The time does not tell how many of the bytes are right.
bool is_same_secret(std::string_view given, std::string_view secret) {
  unsigned difference = given.size() == secret.size() ? 0 : 1;
  for (std::size_t i = 0; i < std::min(given.size(), secret.size()); ++i) {
    difference |= static_cast<unsigned char>(given[i]) ^ static_cast<unsigned char>(secret[i]);
  }
  return difference == 0;
}

/// Blocks the signals that end the program, also in threads that are created from now on.
sigset_t block_termination() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  return signals;
}

/// Options of civetweb. A scrape takes milliseconds, so two threads serve many; a client that sends
/// nothing has occupies one of them for five seconds at most.
std::vector<std::string> options_for(const ListenAddress& address) {
  return {"listening_ports",    address.text(), "num_threads",       "2",
          "request_timeout_ms", "5000",         "enable_keep_alive", "no"};
}

}  // namespace

Result<void> serve(const ListenAddress& address, const std::string& password,
                   std::function<Families()> collect,
                   const std::function<void(const std::string& url)>& ready) {
  if (const int code = listen_error(address); code != 0) {
    return Error{code, "cannot listen on " + address.text() + ": " + std::strerror(code) +
                           "; choose another address or port (ss -ltnp lists those in use)"};
  }
  const sigset_t signals = block_termination();
  (void)std::signal(SIGPIPE, SIG_IGN);  // a client may close its connection early
  const auto source = std::make_shared<Source>(std::move(collect));
  std::unique_ptr<prometheus::Exposer> exposer;
  try {
    exposer = std::make_unique<prometheus::Exposer>(options_for(address));
  } catch (const std::exception& error) {
    const bool is_ipv6 = std::holds_alternative<Ipv6Address>(address.host);
    return Error{EIO,
                 "cannot listen on " + address.text() + ": " +
                     (is_ipv6 ? "the library civetweb was built without IPv6"
                              : "the library civetweb does not start, perhaps since the limit of "
                                "threads is reached (ulimit -u; TasksMax= of a unit)")};
  }
  exposer->RegisterCollectable(source);
  if (!password.empty()) {
    exposer->RegisterAuth([&password](const std::string&, const std::string& given) {
      return is_same_secret(given, password);
    });
  }
  ListenAddress actual = address;
  const auto ports = exposer->GetListeningPorts();
  if (!ports.empty()) actual.port = static_cast<std::uint16_t>(ports.front());
  ready("http://" + actual.text() + "/metrics");
  int received = 0;
  while (sigwait(&signals, &received) != 0) {
  }
  return {};
}

}  // namespace ipoib::metrics
