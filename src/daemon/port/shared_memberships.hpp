// The multicast memberships of all ipoibd on one port of this host.
//
// The SA keeps one membership per port and does not count programs: the first daemon to leave a
// group would leave it for the others, too. So the daemons count together, with locks on bytes of a
// file: each holds a shared lock for each membership, and only the one that can lock it exclusively
// sends the leave. The kernel releases the locks of a process that dies. The file is empty, and its
// last user removes it.
//
// Daemons share a file if they see one folder; containers have to mount it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "ipoib/file_descriptor.hpp"
#include "ipoib/result.hpp"
#include "wire/sa_request.hpp"

namespace ipoib::daemon {

class SharedMemberships {
 public:
  /// The folder "members" of ipoib/run_folder.hpp, which it creates if necessary.
  [[nodiscard]] static Result<std::filesystem::path> default_folder();

  /// Counts nothing: each leave is sent.
  SharedMemberships() = default;
  /// `port` is a file name that identifies the port on this host. Creates the folder if necessary,
  /// and removes files of it that no process uses.
  [[nodiscard]] static Result<SharedMemberships> open(const std::filesystem::path& folder,
                                                      const std::string& port);
  SharedMemberships(SharedMemberships&& other) noexcept = default;
  SharedMemberships& operator=(SharedMemberships&& other) = delete;
  SharedMemberships(const SharedMemberships&) = delete;
  SharedMemberships& operator=(const SharedMemberships&) = delete;
  ~SharedMemberships();

  enum class Action : std::uint8_t {
    send,
    leave_out,  ///< a leave: other daemons are members
    postpone,   ///< a join: another daemon is just leaving the group; a leave: others are members,
                ///< and a join of this daemon is outstanding
  };
  /// To be called before a request is sent, and again for one that was postponed.
  [[nodiscard]] Action before(const wire::SaRequest& request);
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
    unsigned joins = 0;   ///< outstanding
    unsigned leaves = 0;  ///< outstanding
    unsigned period = 0;  ///< the joins of earlier ones are abandoned
  };
  struct Outstanding {
    Byte byte = 0;
    bool is_join = false;
    unsigned period = 0;
  };

  SharedMemberships(std::filesystem::path path, FileDescriptor file)
      : path_(std::move(path)), file_(std::move(file)) {}

  [[nodiscard]] Action before_join(wire::SaRequestId id, Byte byte);
  [[nodiscard]] Action before_leave(wire::SaRequestId id, Byte byte);
  using Iterator = std::map<Byte, Membership>::iterator;
  /// Returns the next one.
  Iterator release_if_unused(Iterator at);

  std::filesystem::path path_;
  FileDescriptor file_;
  std::map<Byte, Membership> memberships_;  ///< of this daemon; bounded by the limits of its links
  std::map<wire::SaRequestId, Outstanding> outstanding_;
};

}  // namespace ipoib::daemon
