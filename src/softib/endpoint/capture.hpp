// Captures the packets of this process into a file for tshark (erf/capture_format.hpp).
//
// Each batch is appended by one write(2), so a killed process leaves a readable file, and several
// processes may share one. When the disk is full, or the limit of the size of files is reached, the
// file ends after a complete record. A pipe that is full delays the program; when its reader has
// gone, the capture ends.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "erf/capture_format.hpp"
#include "ipoib/file_descriptor.hpp"
#include "ipoib/result.hpp"
#include "ipoib/write_all.hpp"
#include "softib/endpoint/receivers.hpp"

namespace softib::endpoint {

using ipoib::erf::Direction;

/// Whether opening a pipe or another stream writes the file header into it. The first process does.
enum class StreamHeader : std::uint8_t { omit, write };

class CaptureFile {
 public:
  using WallTime = ipoib::erf::WallTime;

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
  void stop(const ipoib::Written& written);

  ipoib::FileDescriptor file_;  ///< empty when the capture has ended
  std::string path_;
  bool is_stream_ = false;  ///< not a regular file
  std::vector<std::uint8_t> batch_;
};

/// Whether a process has sent the packet that arrives at its own HCA, which has the ports `own`.
/// Packets of a connection do not tell.
[[nodiscard]] bool is_sent_by(const RemoteProcess& process, const ArrivedPacket& packet,
                              const HcaPorts& own);

/// Captures each packet and MAD that an endpoint sends or receives, once.
class Capture final : public PacketObserver {
 public:
  /// `self` is the process of the endpoint.
  Capture(CaptureFile file, const RemoteProcess& self) : file_(std::move(file)), self_(self) {}

  void sent(std::span<const OutgoingPacket> batch) override;
  TrySent try_send(std::span<const OutgoingPacket> batch,
                   const std::function<TrySent()>& send) override;
  void received(std::span<const ArrivedPacket> batch, const HcaPorts& own) override;
  void mad_sent(ConstBytes packet) override { add_mad(packet, Direction::sent); }
  void mad_received(ConstBytes packet) override { add_mad(packet, Direction::received); }

 private:
  void add(std::span<const OutgoingPacket> batch, CaptureFile::WallTime when);
  void add_mad(ConstBytes packet, Direction direction);

  std::mutex mutex_;  ///< guards the file
  CaptureFile file_;
  const RemoteProcess self_;
};

}  // namespace softib::endpoint
