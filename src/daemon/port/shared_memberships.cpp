#include "daemon/port/shared_memberships.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <thread>
#include <utility>

#include "ipoib/run_folder.hpp"
#include "ipoib/well_known_groups.hpp"
#include "wire/mgid.hpp"

namespace ipoib::daemon {

namespace {

/// Each user of the file holds a shared lock on this byte.
constexpr ::off_t kUser = 0;

/// Attempts to open a file that its last user is removing by two system calls, and the pause
/// between them.
constexpr int kTries = 100;
constexpr std::chrono::milliseconds kPause{10};

/// Locks or unlocks one byte without waiting; the lock belongs to the open file (fcntl(2)). Returns
/// false if another process holds a conflicting lock.
bool lock(int file, short type, ::off_t byte) {
  struct flock how {};
  how.l_type = type;
  how.l_whence = SEEK_SET;
  how.l_start = byte;
  how.l_len = 1;
  return ::fcntl(file, F_OFD_SETLK, &how) == 0 || (errno != EAGAIN && errno != EACCES);
}

FileDescriptor open_file(const std::filesystem::path& path, int flags) {
  constexpr mode_t kOwner = 0600;
  return FileDescriptor(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | flags, kOwner));
}

/// Removes the file if nobody else uses it. A process that has opened it meanwhile sees that it is
/// gone, and opens another one.
void remove_if_unused(int file, const std::filesystem::path& path) {
  if (lock(file, F_WRLCK, kUser)) ::unlink(path.c_str());
}

bool is_linked(int file) {
  struct stat status {};
  return ::fstat(file, &status) == 0 && status.st_nlink > 0;
}

/// FNV-1a, as a file offset other than kUser.
::off_t byte_of(const Gid& mgid, std::uint8_t join_state) {
  std::uint64_t hash = 0xcbf29ce484222325;
  const auto add = [&hash](std::uint8_t value) { hash = (hash ^ value) * 0x100000001b3; };
  for (const std::uint8_t value : mgid.bytes()) add(value);
  add(join_state);
  return static_cast<::off_t>(hash >> 2) + 1;
}

::off_t byte_of(const wire::McMemberRecord& record) {
  return byte_of(record.mgid, record.join_state);
}

/// Whether a membership counts against kMaxGroups. Those without which an interface does not work
/// do not.
bool is_limited(const wire::McMemberRecord& record) {
  const std::uint8_t scope = wire::scope_of(record.mgid);
  return record.join_state == wire::McMemberRecord::kFullMember &&
         record.mgid != wire::broadcast_gid(record.pkey, scope) &&
         record.mgid != wire::multicast_gid(kAllNodes, record.pkey, scope) &&
         record.mgid != wire::multicast_gid(kAllNodesOfIpv6, record.pkey, scope);
}

}  // namespace

Result<std::filesystem::path> SharedMemberships::default_folder() {
  const auto run = open_run_folder();
  if (!run) return run.error();
  const auto folder = open_folder(*run, "members");
  if (!folder) return folder.error();
  return std::filesystem::path(folder->path);
}

Result<SharedMemberships> SharedMemberships::open(const std::filesystem::path& folder,
                                                  const std::string& port) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return Error(error.value(), folder.string() + ": " + error.message());
  const std::filesystem::path path = folder / port;
  const std::filesystem::directory_iterator end;
  for (std::filesystem::directory_iterator at(folder, error); !error && at != end;
       at.increment(error)) {
    if (at->path() == path) continue;
    if (const FileDescriptor file = open_file(at->path(), 0); file) {
      remove_if_unused(file.get(), at->path());
    }
  }
  for (int tries = 0; tries < kTries; ++tries) {
    FileDescriptor file = open_file(path, O_CREAT);
    if (!file) return Error(errno, path.string() + ": " + std::generic_category().message(errno));
    // The lock fails while the last user removes the file.
    if (lock(file.get(), F_RDLCK, kUser) && is_linked(file.get())) {
      return SharedMemberships(path, std::move(file));
    }
    std::this_thread::sleep_for(kPause);
  }
  return Error(EBUSY, path.string() + ": another process keeps it locked (lslocks)");
}

SharedMemberships::~SharedMemberships() {
  if (file_) remove_if_unused(file_.get(), path_);
}

SharedMemberships::Action SharedMemberships::before(const wire::SaRequest& request) {
  if (const auto* const join = std::get_if<wire::JoinQuery>(&request.query)) {
    return before_join(request.id, join->record);
  }
  if (const auto* const leave = std::get_if<wire::LeaveQuery>(&request.query)) {
    return before_leave(request.id, byte_of(leave->record));
  }
  return Action::send;
}

/// While a leave of this daemon is outstanding, its exclusive lock remains one. A join of its own
/// may be passed on meanwhile: SaClient sends it after the response to the leave.
SharedMemberships::Action SharedMemberships::before_join(wire::SaRequestId id,
                                                         const wire::McMemberRecord& record) {
  const Byte byte = byte_of(record);
  const InterfaceNumber interface = interface_of(id);
  const auto found = memberships_.find(byte);
  const bool is_charged = found != memberships_.end() && found->second.charged;
  const bool needs_share = !is_charged && is_limited(record);
  if (needs_share && !shares_.has_room_for(interface)) return Action::refuse;
  const bool is_leaving = found != memberships_.end() && found->second.leaves > 0;
  if (!is_leaving && !lock(file_.get(), F_RDLCK, byte)) return Action::postpone;
  Membership& membership = memberships_[byte];
  if (needs_share && shares_.take(interface)) membership.charged = interface;
  ++membership.joins;
  outstanding_[id] = {byte, true, membership.period};
  return Action::send;
}

/// The exclusive lock lasts until the response, so that no join of another daemon overtakes the
/// leave. The shared one is released first: of several daemons that leave at one moment, the last
/// one to do so finds no other. A join that is outstanding may still succeed after the others have
/// left, so the leave waits for its response.
SharedMemberships::Action SharedMemberships::before_leave(wire::SaRequestId id, Byte byte) {
  const auto at = memberships_.try_emplace(byte).first;
  Membership& membership = at->second;
  membership.is_member = false;
  ++membership.period;
  if (membership.leaves == 0) (void)lock(file_.get(), F_UNLCK, byte);
  if (!lock(file_.get(), F_WRLCK, byte)) {
    if (membership.joins == 0) {
      (void)erase(at);
      return Action::leave_out;
    }
    (void)lock(file_.get(), F_RDLCK, byte);
    return Action::postpone;
  }
  ++membership.leaves;
  outstanding_[id] = {byte, false, membership.period};
  return Action::send;
}

void SharedMemberships::after(const wire::SaResponse& response) {
  const auto found = outstanding_.find(response.id);
  if (found == outstanding_.end()) return;
  const Outstanding request = found->second;
  outstanding_.erase(found);
  const auto at = memberships_.find(request.byte);
  Membership& membership = at->second;
  if (!request.is_join) {
    if (--membership.leaves == 0) (void)lock(file_.get(), F_RDLCK, request.byte);
  } else {
    --membership.joins;
    const bool has_joined = std::holds_alternative<wire::McMemberRecord>(response.result);
    if (has_joined && request.period == membership.period) membership.is_member = true;
  }
  (void)release_if_unused(at);
}

void SharedMemberships::on_deleted(const Gid& mgid) {
  using wire::McMemberRecord;
  for (const auto state : {McMemberRecord::kFullMember, McMemberRecord::kNonMember,
                           McMemberRecord::kSendOnlyNonMember}) {
    const auto at = memberships_.find(byte_of(mgid, state));
    if (at == memberships_.end()) continue;
    at->second.is_member = false;
    (void)release_if_unused(at);
  }
}

void SharedMemberships::on_reregister() {
  for (auto at = memberships_.begin(); at != memberships_.end();) {
    at->second.is_member = false;
    at = release_if_unused(at);
  }
}

void SharedMemberships::on_port_lost() {
  for (auto& [byte, membership] : memberships_) ++membership.period;
  on_reregister();
}

SharedMemberships::Iterator SharedMemberships::release_if_unused(Iterator at) {
  const Membership& membership = at->second;
  if (membership.is_member || membership.joins > 0 || membership.leaves > 0) return std::next(at);
  (void)lock(file_.get(), F_UNLCK, at->first);
  return erase(at);
}

SharedMemberships::Iterator SharedMemberships::erase(Iterator at) {
  if (at->second.charged) shares_.give_back(*at->second.charged);
  return memberships_.erase(at);
}

}  // namespace ipoib::daemon
