// What inetd and netcat are for TCP: programs that know no RDMA use a connection of rsocket(7).
//
// Usage: rsocket_relay serve ADDRESS PORT COMMAND [ARGUMENT...]
//        rsocket_relay connect ADDRESS PORT
//
// "serve" takes one connection, which is the standard input and output of the command; "connect"
// makes one, and copies its own standard input and output.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <rdma/rsocket.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace {

void check(bool is_done, const char* call) {
  if (is_done) return;
  std::perror(call);
  std::_Exit(1);
}

/// Starts the command with one end of a pair of sockets. Returns the other one.
int start(char** command) {
  std::array<int, 2> ends{};
  check(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()) == 0, "socketpair");
  if (::fork() == 0) {
    ::dup2(ends[1], STDIN_FILENO);
    ::dup2(ends[1], STDOUT_FILENO);
    ::close(ends[0]);
    ::close(ends[1]);
    ::execvp(command[0], command);
    check(false, command[0]);
  }
  ::close(ends[1]);
  return ends[0];
}

/// Copies in both directions until both have ended.
void relay(int connection, int in, int out) {
  std::array<pollfd, 2> from{{{connection, POLLIN, 0}, {in, POLLIN, 0}}};
  while (from[0].fd >= 0 || from[1].fd >= 0) {
    check(::rpoll(from.data(), from.size(), -1) > 0, "rpoll");
    std::array<char, 1 << 16> data{};
    if (from[0].revents != 0) {
      const auto size = ::rrecv(connection, data.data(), data.size(), 0);
      for (ssize_t done = 0; done < size;) {
        const auto more = ::write(out, data.data() + done, static_cast<std::size_t>(size - done));
        check(more > 0, "write");
        done += more;
      }
      if (size <= 0) {
        (void)::shutdown(out, SHUT_WR);
        from[0].fd = -1;
      }
    }
    if (from[1].revents != 0) {
      const auto size = ::read(in, data.data(), data.size());
      for (ssize_t done = 0; done < size;) {
        const auto more =
            ::rsend(connection, data.data() + done, static_cast<std::size_t>(size - done), 0);
        check(more > 0, "rsend");
        done += more;
      }
      if (size <= 0) {
        (void)::rshutdown(connection, SHUT_WR);
        from[1].fd = -1;
      }
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  const bool serves = argc > 4 && std::string_view(argv[1]) == "serve";
  if (!serves && argc != 4) return 2;
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<std::uint16_t>(std::atoi(argv[3])));
  check(::inet_pton(AF_INET, argv[2], &to.sin_addr) == 1, "inet_pton");
  const auto* const address = reinterpret_cast<const sockaddr*>(&to);
  const int made = ::rsocket(AF_INET, SOCK_STREAM, 0);
  check(made >= 0, "rsocket");
  if (!serves) {
    check(::rconnect(made, address, sizeof to) == 0, "rconnect");
    relay(made, STDIN_FILENO, STDOUT_FILENO);
    return ::rclose(made);
  }
  check(::rbind(made, address, sizeof to) == 0, "rbind");
  check(::rlisten(made, 1) == 0, "rlisten");
  const int connection = ::raccept(made, nullptr, nullptr);
  check(connection >= 0, "raccept");
  const int command = start(argv + 4);
  relay(connection, command, command);
  (void)::rclose(connection);
  return ::rclose(made);
}
