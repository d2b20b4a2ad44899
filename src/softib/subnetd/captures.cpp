#include "softib/subnetd/captures.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <cerrno>
#include <cstring>
#include <utility>

#include "softib/transport/unix_socket.hpp"

namespace softib::subnetd {

using ipoib::Error;
using ipoib::Result;
using StreamDescriptor = boost::asio::posix::stream_descriptor;

Result<void> Captures::begin(const control::Capture& request) {
  const auto has_id = [&](const Running& each) { return each.request.id == request.id; };
  if (std::ranges::any_of(running_, has_id)) {
    return Error{EEXIST, "there is a capture " + std::to_string(request.id) +
                             " already: choose another number"};
  }
  if (running_.size() >= fabric::kMaxCaptures) {
    return Error{EBUSY, "the subnet has " + std::to_string(fabric::kMaxCaptures) +
                            " captures already; end one"};
  }
  const auto socket = transport::connect_to_capture(folder_, request.id);
  const int copy = socket ? ::fcntl(socket.get(), F_DUPFD_CLOEXEC, 0) : -1;
  if (copy < 0) {
    return Error{errno, std::string("cannot connect to the capture: ") + std::strerror(errno)};
  }
  auto connection = std::make_unique<StreamDescriptor>(context_, copy);
  // Nobody sends on it, so it becomes readable when its other end has gone.
  connection->async_wait(StreamDescriptor::wait_read,
                         [this, id = request.id, alive = alive_](boost::system::error_code error) {
                           if (!error && *alive) end(id);
                         });
  running_.push_back({request, std::move(connection)});
  changed_();
  return {};
}

void Captures::end(fabric::CaptureId id) {
  const auto ended =
      std::erase_if(running_, [&](const Running& each) { return each.request.id == id; });
  if (ended == 0) return;
  if (const auto top = folder_.open()) {
    ::unlinkat(top->get(), fabric::capture_name(id).c_str(), 0);
  }
  changed_();
}

void Captures::end_all() {
  while (!running_.empty()) end(running_.front().request.id);
}

std::uint64_t Captures::word_of(std::string_view hca) const {
  fabric::NodeCaptures captures;
  for (const auto& [request, connection] : running_) {
    const bool is_named = std::ranges::count(request.hcas, hca) != 0;
    if (is_named || request.hcas.empty()) captures.push_back({request.id, is_named});
  }
  return fabric::encode(captures);
}

}  // namespace softib::subnetd
