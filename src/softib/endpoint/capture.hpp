// Packets of this process in a file that tshark reads: pcap with ERF records (link type 197), since
// no link type of pcap says InfiniBand as well.
//
//   pcap record header 16 | ERF header 16 | LRH ... padding, ICRC 4, VCRC 2
//   ERF: | timestamp 8, little-endian 32.32 s | type 8 = 21 | flags 8 | rlen 16 | - 16 | wlen 16 |
//
// Each batch is one write(2) to the end of the file: a process that is killed leaves a readable
// file, and several processes may share one. When the disk is full, the file ends with a record.
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

/// The ERF interface number, by which tshark tells the directions apart.
enum class Direction : std::uint8_t { sent = 0, received = 1 };

class CaptureFile {
 public:
  using WallTime = std::chrono::system_clock::time_point;

  /// Appends to a file; one that is new or empty gets its header.
  [[nodiscard]] static ipoib::Result<CaptureFile> open(const std::string& path);

  /// Adds a packet, LRH to padding, to the batch; the CRCs are computed here.
  void add(ConstBytes packet, Direction direction, WallTime when);
  /// Writes the batch. When the file system does not take all of it, that is said on stderr, and
  /// the capture has ended.
  void flush();

 private:
  CaptureFile(ipoib::FileDescriptor file, std::string path)
      : file_(std::move(file)), path_(std::move(path)) {}
  void end_with(int code, ssize_t written);

  ipoib::FileDescriptor file_;  ///< none: the capture has ended
  std::string path_;
  std::vector<std::uint8_t> batch_;
};

/// An endpoint whose packets and MADs, sent and received, are in a capture, each once.
class CapturingEndpoint final : public Endpoint, private PacketReceiver, private MadReceiver {
 public:
  CapturingEndpoint(std::unique_ptr<Endpoint> inner, CaptureFile file);
  ~CapturingEndpoint() override;

  [[nodiscard]] const std::string& hca_name() const override { return inner_->hca_name(); }
  [[nodiscard]] NodeIndex node() const override { return inner_->node(); }
  [[nodiscard]] std::uint32_t place() const override { return inner_->place(); }
  [[nodiscard]] std::uint32_t epoch() const override { return inner_->epoch(); }
  [[nodiscard]] bool is_lost() const override { return inner_->is_lost(); }
  void retire() override { inner_->retire(); }
  [[nodiscard]] PortAttributes port() const override { return inner_->port(); }
  void send(std::span<const OutgoingPacket> batch) override;
  void send_mad(ConstBytes packet) override;
  void send_mad_to(NodeIndex node, ConstBytes packet) override;
  void set_mad_deadline(ipoib::TimePoint when) override { inner_->set_mad_deadline(when); }
  [[nodiscard]] bool nudge(NodeIndex node) override { return inner_->nudge(node); }
  void set_receiver(PacketReceiver* receiver) override;
  void set_mad_receiver(MadReceiver* receiver) override;
  void count(fabric::PortCounter counter, std::uint64_t by) override { inner_->count(counter, by); }
  [[nodiscard]] fabric::PortCounterValues counters() const override { return inner_->counters(); }
  bool take_arrivals() override { return inner_->take_arrivals(); }
  void attend(std::size_t entry, std::uint32_t attendant) override {
    inner_->attend(entry, attendant);
  }
  [[nodiscard]] std::uint32_t add_bell(int event) override { return inner_->add_bell(event); }
  void remove_bell(std::uint32_t bell) override { inner_->remove_bell(bell); }

 private:
  void receive(std::span<const ArrivedPacket> batch) override;
  void port_changed(const PortAttributes& now) override;
  void attendants_in_doubt() override;
  void receive_mad(ConstBytes packet) override;
  void mad_deadline(ipoib::TimePoint now) override;
  void device_lost() override;
  [[nodiscard]] bool is_own(const ArrivedPacket& packet) const;
  void record_mad(ConstBytes packet, Direction direction);

  std::unique_ptr<Endpoint> inner_;
  std::mutex mutex_;  ///< of the file
  CaptureFile file_;
  PacketReceiver* receiver_ = nullptr;
  MadReceiver* mad_receiver_ = nullptr;
};

}  // namespace softib::endpoint
