// The multicast memberships of all ipoibd on one port of this host.
//
// The SA keeps one membership per port and does not count programs: the first daemon to leave a
// group would leave it for the others, too. So the daemons count together, with locks on bytes of a
// file: each holds a shared lock for each membership, and only the one that can lock it exclusively
// sends the leave. The kernel releases the locks of a process that dies. The file is empty, and its
// last user removes it.
//
// Daemons share a file if they see one folder; containers have to mount it.
//
// The groups that a daemon's interfaces have joined on the port also have a limit here, since each
// takes a multicast LID of the subnet: without it, a program that joins its groups on every
// interface of the host could take all that the SM has.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "daemon/pump/sa_requests.hpp"
#include "ipoib/fair_share.hpp"
#include "ipoib/file_descriptor.hpp"
#include "ipoib/result.hpp"
#include "sa/membership_gate.hpp"
#include "wire/sa_request.hpp"

namespace ipoib::daemon {

class SharedMemberships final : public sa::MembershipGate {
 public:
  /// Groups that the interfaces of a daemon are full members of on a port, besides the broadcast
  /// and all-nodes groups. Each interface has a fair share (ipoib/fair_share.hpp): a single one
  /// half, which is all that its link asks for. A subnet manager may have as few as 1,024 multicast
  /// LIDs.
  static constexpr std::size_t kMaxGroups = 960;

  /// The folder "members" of ipoib/run_folder.hpp, which it creates if necessary.
  [[nodiscard]] static Result<std::filesystem::path> default_folder();

  /// Counts no other daemons: each leave is sent.
  SharedMemberships() = default;
  /// `port` is a file name that identifies the port on this host. Creates the folder if necessary,
  /// and removes files of it that no process uses.
  [[nodiscard]] static Result<SharedMemberships> open(const std::filesystem::path& folder,
                                                      const std::string& port);
  SharedMemberships(SharedMemberships&& other) noexcept = default;
  SharedMemberships& operator=(SharedMemberships&& other) = delete;
  SharedMemberships(const SharedMemberships&) = delete;
  SharedMemberships& operator=(const SharedMemberships&) = delete;
  ~SharedMemberships() override;

  [[nodiscard]] Action before(const wire::SaRequest& request) override;
  /// To be called with each response to a request that was sent.
  void after(const wire::SaResponse& response);
  /// The group was deleted. The responses to outstanding joins are newer.
  void on_deleted(const Gid& mgid);
  /// The SM has lost the memberships. Outstanding joins count, since they are repeated.
  void on_reregister();
  /// The port is down, and the interfaces ignore the responses to outstanding joins.
  void on_port_lost();

 private:
  /// A byte of the file for each group and JoinState. Two may have one byte; then a leave may be
  /// left out.
  using Byte = ::off_t;
  struct Membership {
    bool is_member = false;
    unsigned joins = 0;                      ///< outstanding
    unsigned leaves = 0;                     ///< outstanding
    unsigned period = 0;                     ///< the joins of earlier ones do not count
    std::optional<InterfaceNumber> charged;  ///< the interface of whose share it is
  };
  struct Outstanding {
    Byte byte = 0;
    bool is_join = false;
    unsigned period = 0;
  };

  SharedMemberships(std::filesystem::path path, FileDescriptor file)
      : path_(std::move(path)), file_(std::move(file)) {}

  [[nodiscard]] Action before_join(wire::SaRequestId id, const wire::McMemberRecord& record);
  [[nodiscard]] Action before_leave(wire::SaRequestId id, Byte byte);
  using Iterator = std::map<Byte, Membership>::iterator;
  Iterator erase(Iterator at);
  /// Returns the next membership.
  Iterator release_if_unused(Iterator at);

  std::filesystem::path path_;
  FileDescriptor file_;
  std::map<Byte, Membership> memberships_;  ///< of this daemon; bounded by the limits of its links
  std::map<wire::SaRequestId, Outstanding> outstanding_;
  FairShare<InterfaceNumber> shares_{kMaxGroups};
};

}  // namespace ipoib::daemon
