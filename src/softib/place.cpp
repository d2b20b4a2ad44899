#include "softib/place.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "softib/file_lock.hpp"
#include "softib/unix_socket.hpp"

namespace softib {

using ipoib::Error;
using ipoib::Result;

namespace {

ipoib::FileDescriptor open_lock(const std::string& path, int flags) {
  ipoib::FileDescriptor file(::open(path.c_str(), O_RDWR | O_CLOEXEC | flags, 0666));
  if (file && (flags & O_CREAT) != 0) (void)::fchmod(file.get(), 0666);
  return file;
}

}  // namespace

Result<Place> Place::take(const SubnetFolder& folder, Fabric& fabric, NodeIndex node) {
  for (std::uint32_t index = 0; index < QpnLayout::kPlaces; ++index) {
    ipoib::FileDescriptor lock = open_lock(folder.place_lock(node, index), O_CREAT);
    if (!lock) {
      const int code = errno;
      return Error{code,
                   "cannot take a place in " + folder.node(node) + ": " + std::strerror(code)};
    }
    if (!try_lock(lock.get(), 0)) continue;
    (void)write_holder(lock.get());
    auto listener = listen_at(folder.place(node, index));
    if (!listener) return listener.error();
    Place place;
    place.node_ = node;
    place.index_ = index;
    place.lock_ = GuardedFd(std::move(lock));
    place.listener_ = std::move(*listener);
    place.epoch_ = fabric.advance_epoch(node, index);
    return place;
  }
  return Error{EBUSY, "all " + std::to_string(QpnLayout::kPlaces) +
                          " places of the HCA are taken by processes: end one of them"};
}

void Place::leave(const SubnetFolder& folder, Fabric& fabric) {
  fabric.set_occupied(node_, index_, false);
  ::unlink(folder.place(node_, index_).c_str());
  listener_.reset();
  lock_.reset();
}

void clean_place(const SubnetFolder& folder, Fabric& fabric, NodeIndex node, std::uint32_t place) {
  const ipoib::FileDescriptor lock = open_lock(folder.place_lock(node, place), 0);
  if (!lock || !try_lock(lock.get(), 0)) return;
  fabric.set_occupied(node, place, false);
  ::unlink(folder.place(node, place).c_str());
}

}  // namespace softib
