// A persistent TUN device: the host's side of an IPoIB interface.
//
// The kernel keeps a persistent TUN, with its addresses and routes, when its process dies; it loses
// carrier then, and the next open() adopts it. remove() ends that, so that an orderly shutdown
// leaves nothing behind. While the descriptor is open nobody else can have the device.
//
// Packets come with a header that leaves work to the device (virtio_header.hpp): the kernel hands
// over TCP and UDP uncut, up to 64 KiB in one read, where it knows how (UDP: from Linux 6.2), and
// takes them so. A read has room for a packet of the link in one frame and for the rest of a large
// one in another, so that what is small lies in a small frame without having been copied.
#pragma once

#include <sys/uio.h>

#include <memory>
#include <optional>
#include <string>

#include "ipoib/file_descriptor.hpp"
#include "ipoib/interface_mtu.hpp"
#include "ipoib/ip.hpp"
#include "ipoib/tun_port.hpp"

namespace ipoib::host {

struct TunOptions {
  std::string name = "ib0";
  std::uint32_t queue_length = 1000;  ///< packets that the kernel keeps for us (txqueuelen)
  /// The kernel hands over packets that are to be cut.
  bool large_packets = true;
  /// The kernel makes the interface's IPv6 addresses from it; without, it makes none (see
  /// NetlinkView::open).
  std::optional<Ipv6Address> stable_secret = {};
};

class TunDevice final : public TunPort {
 public:
  /// Makes the interface, or adopts a persistent one of that name that nobody holds. A new one is
  /// administratively up, and its kernel takes part in Neighbour Discovery (no NOARP): it answers
  /// for its addresses and looks for duplicates. An adopted one is as its last administrator left
  /// it. No carrier yet.
  [[nodiscard]] static Result<std::unique_ptr<TunDevice>> open(const TunOptions& options);
  /// Removes a persistent interface that open() has made and nobody holds, if it is there.
  static void discard(const std::string& name);
  ~TunDevice() override = default;

  [[nodiscard]] const std::string& name() const override { return name_; }
  bool read(const HostPools& pools, std::size_t headroom, std::vector<Frame>& out,
            std::size_t limit) override;
  bool write(ConstBytes packet) override;
  [[nodiscard]] bool accepts(Segmentation::Kind kind) const override {
    return kind == Segmentation::Kind::tcp ? takes_tcp_ : takes_udp_;
  }
  bool write_large(std::span<const ConstBytes> pieces, const Segmentation& how) override;
  /// An MTU that the administrator has set meanwhile holds where it is smaller, from then on.
  [[nodiscard]] Result<void> set_mtu(std::uint32_t octets) override;
  [[nodiscard]] Result<void> set_carrier(bool on) override;

  [[nodiscard]] int descriptor() const { return fd_.get(); }
  [[nodiscard]] int interface_index() const { return index_; }
  [[nodiscard]] bool adopted() const { return adopted_; }
  /// Packets whose header makes no sense, which were dropped.
  [[nodiscard]] std::uint64_t malformed() const { return malformed_; }
  /// Somebody has deleted the interface under us; nothing can be read or written any more.
  [[nodiscard]] bool is_gone() const { return gone_; }
  /// The interface disappears when this object dies.
  void remove();

 private:
  TunDevice(FileDescriptor fd, FileDescriptor control, std::string name)
      : fd_(std::move(fd)), control_(std::move(control)), name_(std::move(name)) {}
  [[nodiscard]] Result<void> configure(const TunOptions& options);
  [[nodiscard]] Result<void> change_flags(short set, short clear);
  [[nodiscard]] Result<void> agree_on_headers(bool large_packets);
  enum class Found : std::uint8_t { packet, large_packet, malformed, no_frame, nothing };
  [[nodiscard]] Found read_one(const HostPools& pools, std::size_t headroom,
                               std::vector<Frame>& out);
  [[nodiscard]] bool write_all(std::span<const iovec> pieces);

  FileDescriptor fd_;
  FileDescriptor control_;  ///< a socket in the interface's namespace, for its ioctls
  std::string name_;
  int index_ = 0;
  InterfaceMtu mtu_;
  bool adopted_ = false;
  bool gone_ = false;
  bool takes_tcp_ = false;
  bool takes_udp_ = false;
  std::uint64_t malformed_ = 0;
};

}  // namespace ipoib::host
