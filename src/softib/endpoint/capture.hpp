// Captures the packets of this process into a file for tshark: pcap with ERF records (link type
// 197), which mark the packets as InfiniBand and contain their direction.
//
//   pcap record header 16 | ERF header 16 | LRH ... padding, ICRC 4, VCRC 2
//   ERF: | timestamp 8, little-endian 32.32 s | type 8 = 21 | flags 8 | rlen 16 | - 16 | wlen 16 |
//
// Each batch is appended by one write(2), so a killed process leaves a readable file, and several
// processes may share one. When the disk is full, the file ends after a complete record. A pipe
// that is full delays the program; when its reader has gone, the capture ends.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "ipoib/file_descriptor.hpp"
#include "ipoib/result.hpp"
#include "softib/endpoint/endpoint.hpp"

namespace softib::endpoint {

/// The ERF interface number, by which tshark distinguishes the directions.
enum class Direction : std::uint8_t { sent = 0, received = 1 };

/// Whether opening a pipe or another stream writes the file header into it. The first process does.
enum class StreamHeader : std::uint8_t { omit, write };

class CaptureFile {
 public:
  using WallTime = std::chrono::system_clock::time_point;

  /// Opens a file for appending. Writes the file header if the file is new or empty.
  [[nodiscard]] static ipoib::Result<CaptureFile> open(
      const std::string& path, StreamHeader stream_header = StreamHeader::omit);

  /// Opens the file in the first process: empties a regular file, unless it is given by its
  /// descriptor.
  [[nodiscard]] static ipoib::Result<CaptureFile> begin(const std::string& path);

  /// Adds a packet, LRH to padding, to the batch, and computes its CRCs.
  void add(ConstBytes packet, Direction direction, WallTime when);
  /// Writes the batch. If the file system does not take all of it, reports that on stderr and ends
  /// the capture.
  void flush();

 private:
  CaptureFile(ipoib::FileDescriptor file, std::string path, bool is_stream)
      : file_(std::move(file)), path_(std::move(path)), is_stream_(is_stream) {}
  void stop(int code, ssize_t written);

  ipoib::FileDescriptor file_;  ///< empty when the capture has ended
  std::string path_;
  bool is_stream_ = false;  ///< not a regular file
  std::vector<std::uint8_t> batch_;
};

/// Decorates an endpoint: captures each packet and MAD that it sends or receives, once.
class CapturingEndpoint final : public Endpoint,
                                private PacketReceiver,
                                private MadReceiver,
                                private CmReceiver {
 public:
  CapturingEndpoint(std::unique_ptr<Endpoint> inner, CaptureFile file);
  ~CapturingEndpoint() override;

  [[nodiscard]] const std::string& hca_name() const override { return inner_->hca_name(); }
  [[nodiscard]] NodeIndex node() const override { return inner_->node(); }
  [[nodiscard]] std::uint32_t slot() const override { return inner_->slot(); }
  [[nodiscard]] std::uint32_t epoch() const override { return inner_->epoch(); }
  [[nodiscard]] bool is_lost() const override { return inner_->is_lost(); }
  void detach() override { inner_->detach(); }
  [[nodiscard]] PortAttributes port() const override { return inner_->port(); }
  void send(std::span<const OutgoingPacket> batch) override;
  [[nodiscard]] std::size_t try_send(std::span<const OutgoingPacket> batch) override;
  [[nodiscard]] bool has_untaken(Lid dlid, Qpn destination) override {
    return inner_->has_untaken(dlid, destination);
  }
  void send_mad(ConstBytes packet) override;
  void send_mad_to(NodeIndex node, ConstBytes packet) override;
  void set_mad_deadline(ipoib::TimePoint when) override { inner_->set_mad_deadline(when); }
  void set_deadline(ipoib::TimePoint when) override { inner_->set_deadline(when); }
  void set_cm_deadline(ipoib::TimePoint when) override { inner_->set_cm_deadline(when); }
  [[nodiscard]] bool is_running(const RemoteProcess& process) const override {
    return inner_->is_running(process);
  }
  [[nodiscard]] bool watch_hangup(int fd) override { return inner_->watch_hangup(fd); }
  [[nodiscard]] bool wake_processes(NodeIndex node) override {
    return inner_->wake_processes(node);
  }
  void set_receiver(PacketReceiver* receiver) override;
  void set_mad_receiver(MadReceiver* receiver) override;
  void set_cm_receiver(CmReceiver* receiver) override;
  void count(fabric::PortCounter counter, std::uint64_t by) override { inner_->count(counter, by); }
  [[nodiscard]] fabric::PortCounterValues counters() const override { return inner_->counters(); }
  bool poll_receive_rings() override { return inner_->poll_receive_rings(); }
  void set_waiter(std::size_t entry, std::uint32_t waiter) override {
    inner_->set_waiter(entry, waiter);
  }
  [[nodiscard]] ipoib::Result<transport::WakeupSocket> make_wakeup_socket() override {
    return inner_->make_wakeup_socket();
  }
  [[nodiscard]] std::uint32_t add_wakeup_fd(const transport::WakeupSocket& socket) override {
    return inner_->add_wakeup_fd(socket);
  }
  void remove_wakeup_fd(std::uint32_t number) override { inner_->remove_wakeup_fd(number); }

 private:
  void receive(std::span<const ArrivedPacket> batch) override;
  void port_changed(const PortAttributes& now) override;
  void deadline(ipoib::TimePoint now) override;
  void receive_mad(ConstBytes packet) override;
  void mad_deadline(ipoib::TimePoint now) override;
  [[nodiscard]] bool take_mad(ConstBytes packet) override;
  void cm_deadline(ipoib::TimePoint now) override;
  void connection_ended(const RemoteProcess& process) override;
  void hung_up(int fd) override;
  void cm_lost() override;
  void device_lost() override;
  [[nodiscard]] bool is_own(const ArrivedPacket& packet) const;
  void record_mad(ConstBytes packet, Direction direction);

  std::unique_ptr<Endpoint> inner_;
  std::mutex mutex_;  ///< guards the file
  CaptureFile file_;
  PacketReceiver* receiver_ = nullptr;
  MadReceiver* mad_receiver_ = nullptr;
  CmReceiver* cm_receiver_ = nullptr;
};

}  // namespace softib::endpoint
