#include "softib/endpoint/asked_process.hpp"

#include <poll.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "softib/transport/unix_socket.hpp"
#include "softib/transport/wire_message.hpp"

namespace softib::endpoint {

using std::chrono::steady_clock;

bool AnswerPatience::wait_for(int fd) {
  const auto begin = steady_clock::now();
  const auto longest = std::max<std::chrono::nanoseconds>(left_, kLeast);
  const auto milliseconds = std::chrono::ceil<std::chrono::milliseconds>(longest).count();
  pollfd readable{fd, POLLIN, 0};
  const bool is_readable = ::poll(&readable, 1, static_cast<int>(milliseconds)) == 1;
  left_ -= std::min<std::chrono::nanoseconds>(left_, steady_clock::now() - begin);
  return is_readable;
}

std::vector<ObjectStatus> ask_for_objects(const fabric::SubnetFolder& folder,
                                          fabric::SlotAddress process, ObjectKind kind,
                                          AnswerPatience& patience) {
  using transport::MessageKind;
  std::vector<ObjectStatus> all;
  const auto connection = transport::connect_to(folder, process.node, process.slot);
  if (!connection) return all;
  const int socket = connection.get();
  transport::MessageReader reader;
  ObjectRequest request{kind};
  for (std::size_t pages = 0; pages < kMaxObjectPages; ++pages) {
    if (transport::send_message(socket, MessageKind::want_objects, request.bytes()) != 0) break;
    const bool is_answer = patience.wait_for(socket) &&
                           reader.next(socket) == transport::MessageReader::Got::message &&
                           reader.kind() == MessageKind::objects;
    const auto page = is_answer ? ObjectPage::parse(reader.body()) : std::nullopt;
    if (!page) break;
    all.insert(all.end(), page->objects.begin(), page->objects.end());
    if (page->next <= std::exchange(request.first, page->next)) break;
  }
  return all;
}

}  // namespace softib::endpoint
