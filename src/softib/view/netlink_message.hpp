// Messages of netlink, as bytes.
#pragma once

#include <linux/netlink.h>

#include <cstdint>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "softib/core/fabric_types.hpp"

namespace softib::view {

/// A message that netlink delivers as a whole.
using Datagram = std::vector<std::uint8_t>;

/// Writes attributes.
class AttributeWriter {
 public:
  template <class T>
  void attribute(std::uint16_t type, const T& value) {
    put(nlattr{static_cast<std::uint16_t>(NLA_HDRLEN + sizeof value), type});
    put(value);
    pad();
  }
  void text(std::uint16_t type, std::string_view value) {
    put(nlattr{static_cast<std::uint16_t>(NLA_HDRLEN + value.size() + 1), type});
    append(value.data(), value.size());
    bytes_.push_back(0);
    pad();
  }
  /// Begins an attribute that holds others. Returns what end() needs.
  std::size_t begin(std::uint16_t type) {
    const auto at = bytes_.size();
    put(nlattr{0, static_cast<std::uint16_t>(type | NLA_F_NESTED)});
    return at;
  }
  void end(std::size_t begun) {
    const auto size = static_cast<std::uint16_t>(bytes_.size() - begun);
    std::memcpy(bytes_.data() + begun, &size, sizeof size);
  }
  /// Appends attributes that another one has written.
  void append(ConstBytes attributes) { append(attributes.data(), attributes.size()); }
  [[nodiscard]] std::size_t size() const { return bytes_.size(); }
  [[nodiscard]] Datagram take() && { return std::move(bytes_); }

 protected:
  /// Appends the bytes of a value.
  template <class T>
  void put(const T& value) {
    append(&value, sizeof value);
  }
  Datagram bytes_;

 private:
  void append(const void* from, std::size_t size) {
    const auto at = bytes_.size();
    bytes_.resize(at + size);
    if (size != 0) std::memcpy(bytes_.data() + at, from, size);
  }
  void pad() { bytes_.resize(NLMSG_ALIGN(bytes_.size())); }
};

/// Writes one message.
class MessageWriter : public AttributeWriter {
 public:
  MessageWriter(std::uint16_t type, std::uint16_t flags, const nlmsghdr& request,
                std::uint32_t port_id) {
    put(nlmsghdr{0, type, flags, request.nlmsg_seq, port_id});
  }
  using AttributeWriter::put;
  /// The message, with its length.
  [[nodiscard]] Datagram finish() && {
    const auto size = static_cast<std::uint32_t>(bytes_.size());
    std::memcpy(bytes_.data(), &size, sizeof size);
    return std::move(bytes_);
  }
};

}  // namespace softib::view
