#include "softib/subnetd/roce_sockets.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <stdexcept>
#include <utility>

#include "ipoib/log.hpp"
#include "softib/subnetd/value_or_throw.hpp"

namespace softib::subnetd {
RoceSockets::RoceSockets(boost::asio::io_context& context, const fabric::SubnetFolder& folder,
                         std::string interface, ipoib::Logger& log)
    : wanted_(std::move(interface)),
      log_(log),
      interface_(value_or_throw(roce::read_interface(wanted_))),
      lender_(value_or_throw(roce::SocketLender::open(folder))),
      watch_(value_or_throw(roce::watch_interfaces())),
      watched_(context, ::dup(watch_.get())),
      requests_(context, ::dup(lender_.fd())) {
  if (const auto opened = open_sockets(); !opened) throw std::runtime_error(opened.error().message);
}

/// Opens sockets of addresses that have none. An IPv6 address that is being checked for duplicates
/// is not usable yet, and so no GID; the end of the check is another change.
ipoib::Result<void> RoceSockets::open_sockets() {
  ipoib::Result<void> result;
  std::erase_if(interface_.gids, [&](const Gid& gid) {
    if (std::ranges::find(sockets_, gid, &roce::ReceiveSockets::address) != sockets_.end()) {
      return false;
    }
    auto opened = roce::ReceiveSockets::open(gid, interface_.index);
    if (opened) {
      sockets_.push_back(std::move(*opened));
    } else if (opened.error().code != EADDRNOTAVAIL) {
      result = opened.error();
    }
    return !opened.has_value();
  });
  return result;
}

void RoceSockets::start(Changed changed, std::function<void()> lent) {
  changed_ = std::move(changed);
  lent_ = std::move(lent);
  changed_(interface_);
  wait_for_change();
  wait_for_requests();
}

void RoceSockets::wait_for_change() {
  watched_.async_wait(watched_.wait_read, [this](boost::system::error_code error) {
    if (error) return;
    roce::drain(watch_);
    update();
    wait_for_change();
  });
}

void RoceSockets::wait_for_requests() {
  requests_.async_wait(requests_.wait_read, [this](boost::system::error_code error) {
    if (error) return;
    lender_.answer([this](std::uint32_t slot) { return of_slot(slot); });
    lent_();
    wait_for_requests();
  });
}

/// An interface that has gone, or the address that was wanted, leaves a port that is down.
void RoceSockets::update() {
  auto now = roce::read_interface(wanted_);
  if (!now) {
    interface_.has_carrier = false;
    interface_.gids.clear();
  } else {
    interface_ = std::move(*now);
  }
  std::erase_if(sockets_, [&](const auto& each) {
    return std::ranges::find(interface_.gids, each.address()) == interface_.gids.end();
  });
  if (const auto opened = open_sockets(); !opened) log_.error("{}", opened.error().message);
  changed_(interface_);
}

roce::LentSockets RoceSockets::of_slot(std::uint32_t slot) {
  roce::LentSockets lent{interface_.index, false, {}};
  for (auto& each : sockets_) {
    lent.is_mixed |= each.is_mixed();
    const auto sockets = each.lend(slot);
    if (sockets) {
      lent.sockets.push_back({each.address(), *sockets});
    } else {
      log_.error("{}", sockets.error().message);
    }
  }
  return lent;
}

roce::BorrowedSockets RoceSockets::own() const {
  roce::BorrowedSockets own{interface_.index, {}, false, {}};
  for (const auto& each : sockets_) {
    for (const int fd : each.own()) {
      own.sockets.push_back({each.address(), ipoib::FileDescriptor(::dup(fd))});
    }
  }
  return own;
}

}  // namespace softib::subnetd
