// The folder of a subnet in the file system.
//
//   $SOFTIB_DIR/<subnet>/            mode 0700; everything inside is accessible to all users
//       fabric  control  lock  options
//       capture.<id>                 socket of a process that captures the subnet's packets
//       ended                        the subnet process has ended while programs used the subnet
//       node/<i>/<slot>              socket of the process in a slot of node i
//       node/<i>/<slot>.lock         locked by that process
//       node/<i>/<slot>.cm state of its connection manager (cm_table.hpp)
//       node/<i>/agents              byte-range locks: which requests an agent has registered for
//       node/<i>/issm                pipe: open for reading by the process that is the SM there
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ipoib/file_descriptor.hpp"
#include "ipoib/result.hpp"
#include "softib/core/fabric_types.hpp"

namespace softib::fabric {

inline constexpr const char* kDirectoryVariable = "SOFTIB_DIR";
inline constexpr const char* kSubnetVariable = "SOFTIB_SUBNET";
inline constexpr const char* kHcaVariable = "SOFTIB_HCA";
inline constexpr const char* kCaptureVariable = "SOFTIB_CAPTURE";
inline constexpr const char* kDefaultSubnet = "default";
inline constexpr const char* kControlName = "control";  ///< of the control socket in its folder
/// Name of the first device that verbs and umad show to a process.
inline constexpr const char* kDeviceName = "softib0";
/// HCAs of one process, and thus its devices.
inline constexpr std::size_t kMaxProcessHcas = 4;
/// Name of the device on an HCA of the process, counted from 0.
[[nodiscard]] std::string device_name(std::size_t hca);
/// The HCA of the process with this device; nullopt if none can have it.
[[nodiscard]] std::optional<std::size_t> hca_of_device(std::string_view name);

/// The HCA that a program is to use: NAME or NAME:PORT.
struct HcaName {
  std::string name;
  std::uint8_t port = 0;  ///< the port with a cable; 0 if not given
  [[nodiscard]] static ipoib::Result<HcaName> parse(std::string_view text);
};
/// The HCAs of a program, NAME[:PORT] each, from a list with commas. Fails with EINVAL for too
/// many, or one that is named twice.
[[nodiscard]] ipoib::Result<std::vector<std::string>> parse_hcas(std::string_view list);

/// Returns an absolute path: SOFTIB_DIR; otherwise /run/softib for root, and for other users
/// $XDG_RUNTIME_DIR/softib or, without that, softib-UID in TMPDIR or /tmp. It need not exist. Fails
/// if others have made the last one or may enter it.
[[nodiscard]] ipoib::Result<std::string> softib_directory();

/// The byte of the fabric file that processes lock (shared) while they take a slot, and that the
/// subnet process locks exclusively while it removes folders.
inline constexpr std::int64_t kAttachLockOffset = 0;

/// Names in the folder of a node.
inline constexpr const char* kAgentsName = "agents";
inline constexpr const char* kServicesName = "services";
inline constexpr const char* kPortsName = "ports";
inline constexpr const char* kGroupsName = "groups";
inline constexpr const char* kIssmName = "issm";
[[nodiscard]] std::string slot_name(std::uint32_t slot);
[[nodiscard]] std::string slot_lock_name(std::uint32_t slot);
[[nodiscard]] std::string slot_wakeup_name(std::uint32_t slot);
[[nodiscard]] std::string slot_cm_name(std::uint32_t slot);
/// A file with one of these names.
struct SlotFile {
  std::string name;
  std::uint32_t slot = 0;
  [[nodiscard]] bool is_lock() const { return name == slot_lock_name(slot); }
};

/// What a process wants to do with the folder of a subnet.
enum class FolderUse : std::uint8_t {
  serve,  ///< be its subnet process
  attach  ///< use the subnet
};

/// The folder of one subnet: its paths, and creating and removing its parts.
class SubnetFolder {
 public:
  /// A subnet by its name, in softib_directory(). It need not exist.
  [[nodiscard]] static ipoib::Result<SubnetFolder> of(std::string_view subnet);
  /// The subnet of SOFTIB_SUBNET, or kDefaultSubnet.
  [[nodiscard]] static ipoib::Result<SubnetFolder> from_environment();
  explicit SubnetFolder(std::string path) : path_(std::move(path)) {}

  [[nodiscard]] const std::string& path() const { return path_; }
  /// The last component of the path.
  [[nodiscard]] std::string name() const;
  [[nodiscard]] std::string fabric() const { return path_ + "/fabric"; }
  [[nodiscard]] std::string control() const { return path_ + "/" + kControlName; }
  [[nodiscard]] std::string lock() const { return path_ + "/lock"; }
  [[nodiscard]] std::string options() const { return path_ + "/options"; }
  [[nodiscard]] std::string node(NodeIndex node) const;
  [[nodiscard]] std::string slot_socket(NodeIndex node, std::uint32_t slot) const;
  [[nodiscard]] std::string issm(NodeIndex node) const;

  /// Open the folder, or that of a node, for the functions of shared_file.hpp.
  [[nodiscard]] ipoib::Result<ipoib::FileDescriptor> open() const;
  [[nodiscard]] ipoib::Result<ipoib::FileDescriptor> open_node(NodeIndex node) const;

  /// Checks whether the folder can be trusted: whoever owns it or may write to it controls what its
  /// users get. Fails with EPERM and advice if it is a symbolic link, if users other than its owner
  /// may write to it, or if its owner is neither this user nor root; but root may attach to the
  /// subnet of any user. Fails with ENOENT if there is none.
  [[nodiscard]] ipoib::Result<void> check(FolderUse use) const;
  /// Creates the folder and its parents unless they exist; for the subnet process. Fails as
  /// check().
  [[nodiscard]] ipoib::Result<void> create() const;
  /// Creates the folder of a node; for the subnet process, before it publishes the node in the
  /// fabric file.
  [[nodiscard]] ipoib::Result<void> create_node(NodeIndex node) const;
  /// Removes the folder of a node; for the subnet process, after it has removed the node from the
  /// fabric file.
  void remove_node(NodeIndex node) const;
  /// The files of the process slots of a node that have had a process, in the order of the slots.
  [[nodiscard]] std::vector<SlotFile> slot_files(NodeIndex node) const;
  /// Removes the sockets of captures; for the subnet process when there are none.
  void remove_captures() const;
  /// Removes the folder; for the holder of the subnet's lock when no node is left. If the folder
  /// contains other files, they and the folder stay.
  void remove() const;
  /// Marks whether the subnet process has ended and only programs keep the folder, which then is to
  /// be removed when the last of them has ended (unused_folder.hpp). Unlike one that was killed,
  /// such a subnet does not have to be continued.
  void mark_ended(bool ended) const;
  [[nodiscard]] bool is_ended() const;
  /// Whether a subnet process holds the lock.
  [[nodiscard]] bool is_running() const;

 private:
  std::string path_;
};

}  // namespace softib::fabric
