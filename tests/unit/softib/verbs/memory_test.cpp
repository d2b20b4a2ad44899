// Memory of the process that may be missing, and the kinds of memory that verbs have: regions,
// windows, device memory, and the domains that they belong to.
#include <sys/mman.h>
#include <unistd.h>

#include "ipoib/file_descriptor.hpp"
#include "softib/verbs/process_memory.hpp"
#include "tests/support/emulator.hpp"
#include "verbs_fixture.hpp"

namespace softib::verbs {
namespace {

/// Two pages, of which the second one can be unmapped.
class TwoPages {
 public:
  TwoPages()
      : begin_(static_cast<std::uint8_t*>(::mmap(nullptr, 2 * kPage, PROT_READ | PROT_WRITE,
                                                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {}
  TwoPages(const TwoPages&) = delete;
  TwoPages& operator=(const TwoPages&) = delete;
  ~TwoPages() { ::munmap(begin_, 2 * kPage); }
  void unmap_second() { ASSERT_EQ(::munmap(begin_ + kPage, kPage), 0); }
  void protect_second(int access) { ASSERT_EQ(::mprotect(begin_ + kPage, kPage, access), 0); }
  [[nodiscard]] std::uint8_t* at(std::size_t offset) const { return begin_ + offset; }
  [[nodiscard]] std::uint64_t address(std::size_t offset) const {
    return std::bit_cast<std::uint64_t>(at(offset));
  }

  inline static const auto kPage = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));

 private:
  std::uint8_t* begin_;
};

TEST(ProcessMemory, CopiesMappedMemory) {
  SKIP_UNDER_EMULATOR("has no process_vm_readv");
  TwoPages pages;
  ProcessMemory memory;
  const std::array<std::uint8_t, 4> bytes = {1, 2, 3, 4};
  ASSERT_TRUE(memory.write(pages.at(TwoPages::kPage - 2), bytes));
  std::array<std::uint8_t, 4> found{};
  ASSERT_TRUE(memory.read(found, pages.at(TwoPages::kPage - 2)));
  EXPECT_EQ(found, bytes);
  EXPECT_TRUE(memory.populate(pages.at(TwoPages::kPage - 2), 4));
  EXPECT_TRUE(is_mapped(pages.at(1), 2 * TwoPages::kPage - 1));
  EXPECT_EQ(prefetch_pages(pages.at(1), TwoPages::kPage, true), 0);
}

TEST(ProcessMemory, ReportsMissingMemory) {
  SKIP_UNDER_EMULATOR("has no process_vm_readv");
  TwoPages pages;
  pages.unmap_second();
  ProcessMemory memory;
  std::array<std::uint8_t, 4> bytes{};
  for (const auto offset : {TwoPages::kPage - 2, TwoPages::kPage}) {
    EXPECT_FALSE(memory.write(pages.at(offset), bytes));
    EXPECT_FALSE(memory.read(bytes, pages.at(offset)));
    EXPECT_FALSE(memory.populate(pages.at(offset), 4));
    EXPECT_FALSE(is_mapped(pages.at(offset), 4));
    EXPECT_EQ(prefetch_pages(pages.at(offset), 4, false), EFAULT);
  }
  EXPECT_TRUE(is_mapped(pages.at(0), TwoPages::kPage));
  EXPECT_TRUE(is_mapped(pages.at(TwoPages::kPage), 0)) << "an empty range";
}

TEST(ProcessMemory, ReportsProtectedMemory) {
  SKIP_UNDER_EMULATOR("has no process_vm_readv");
  TwoPages pages;
  pages.protect_second(PROT_READ);
  ProcessMemory memory;
  std::array<std::uint8_t, 4> bytes{};
  EXPECT_FALSE(memory.write(pages.at(TwoPages::kPage), bytes));
  EXPECT_TRUE(memory.read(bytes, pages.at(TwoPages::kPage)));
  EXPECT_FALSE(memory.populate(pages.at(TwoPages::kPage), 4));
  pages.protect_second(PROT_NONE);
  EXPECT_FALSE(memory.read(bytes, pages.at(TwoPages::kPage)));
}

using MemoryTest = VerbsTest;

TEST_F(MemoryTest, MissingMemoryCannotBeRegistered) {
  TwoPages pages;
  pages.unmap_second();
  EXPECT_EQ(ibv_reg_mr(near_.pd, pages.at(0), 2 * TwoPages::kPage, 0), nullptr);
  EXPECT_EQ(errno, EFAULT);
  auto* const mr = ibv_reg_mr(near_.pd, pages.at(0), TwoPages::kPage, 0);
  ASSERT_NE(mr, nullptr);
  EXPECT_NE(
      ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, pages.at(TwoPages::kPage), 8, 0),
      0);
  EXPECT_EQ(mr->addr, pages.at(0));
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
}

/// The code with which registration fails, or 0.
int register_and_release(ibv_pd* pd, void* memory, std::size_t length, int access) {
  auto* const mr = ibv_reg_mr(pd, memory, length, access);
  if (mr == nullptr) return errno;
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
  return 0;
}

TEST_F(MemoryTest, ProtectedMemoryCannotBeRegisteredForWriting) {
  TwoPages pages;
  constexpr std::array kToWrite = {int{IBV_ACCESS_LOCAL_WRITE}, int{IBV_ACCESS_MW_BIND},
                                   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE,
                                   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC};
  const auto code = [&](int access) {
    return register_and_release(near_.pd, pages.at(0), 2 * TwoPages::kPage, access);
  };
  for (const int access : kToWrite) EXPECT_EQ(code(access), 0) << access;
  pages.protect_second(PROT_READ);
  for (const int access : kToWrite) EXPECT_EQ(code(access), EFAULT) << access;
  EXPECT_EQ(code(0), 0);
  EXPECT_EQ(code(IBV_ACCESS_REMOTE_READ), 0);
  pages.protect_second(PROT_NONE);
  EXPECT_EQ(code(0), EFAULT);
  EXPECT_EQ(code(IBV_ACCESS_REMOTE_READ), EFAULT);
  EXPECT_EQ(code(IBV_ACCESS_ON_DEMAND | IBV_ACCESS_LOCAL_WRITE), 0) << "each access is checked";
}

TEST_F(MemoryTest, ARegionOfProtectedMemoryCannotGetWriteAccess) {
  TwoPages pages;
  pages.protect_second(PROT_READ);
  auto* const mr = ibv_reg_mr(near_.pd, pages.at(0), 2 * TwoPages::kPage, 0);
  ASSERT_NE(mr, nullptr);
  constexpr int kToWrite = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
  const auto change = [&](int flags, void* memory, std::size_t length, int access) {
    return ibv_rereg_mr(mr, flags, nullptr, memory, length, access);
  };
  EXPECT_NE(change(IBV_REREG_MR_CHANGE_ACCESS, nullptr, 0, kToWrite), 0);
  EXPECT_NE(change(IBV_REREG_MR_CHANGE_ACCESS | IBV_REREG_MR_CHANGE_TRANSLATION,
                   pages.at(TwoPages::kPage), 8, kToWrite),
            0);
  EXPECT_EQ(change(IBV_REREG_MR_CHANGE_ACCESS | IBV_REREG_MR_CHANGE_TRANSLATION, pages.at(0), 8,
                   kToWrite),
            0);
  EXPECT_NE(change(IBV_REREG_MR_CHANGE_TRANSLATION, pages.at(TwoPages::kPage), 8, 0), 0)
      << "it has write access now";
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
}

TEST_F(MemoryTest, MemoryBeyondTheEndOfAFileCannotBeRegistered) {
  const ipoib::FileDescriptor file(::memfd_create("pages", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(file.get(), static_cast<off_t>(TwoPages::kPage)), 0);
  for (const int sharing : {MAP_SHARED, MAP_PRIVATE}) {
    auto* const begin = static_cast<std::uint8_t*>(
        ::mmap(nullptr, 2 * TwoPages::kPage, PROT_READ | PROT_WRITE, sharing, file.get(), 0));
    ASSERT_NE(begin, MAP_FAILED);
    for (const int access : {0, int{IBV_ACCESS_LOCAL_WRITE}}) {
      EXPECT_EQ(register_and_release(near_.pd, begin, TwoPages::kPage, access), 0);
      EXPECT_EQ(register_and_release(near_.pd, begin, TwoPages::kPage + 1, access), EFAULT);
    }
    ::munmap(begin, 2 * TwoPages::kPage);
  }
}

TEST_F(MemoryTest, RegisteringChangesNoByte) {
  TwoPages pages;
  for (const auto offset : {std::size_t{0}, TwoPages::kPage - 1, TwoPages::kPage}) {
    *pages.at(offset) = 7;
  }
  EXPECT_EQ(
      register_and_release(near_.pd, pages.at(0), 2 * TwoPages::kPage, IBV_ACCESS_LOCAL_WRITE), 0);
  for (const auto offset : {std::size_t{0}, TwoPages::kPage - 1, TwoPages::kPage}) {
    EXPECT_EQ(*pages.at(offset), 7);
  }
}

TEST_F(MemoryTest, OnDemandRegionsMayBeMissing) {
  TwoPages pages;
  pages.unmap_second();
  constexpr int kFlags = IBV_ACCESS_ON_DEMAND | IBV_ACCESS_LOCAL_WRITE;
  auto* const mr = ibv_reg_mr(near_.pd, pages.at(0), 2 * TwoPages::kPage, kFlags);
  ASSERT_NE(mr, nullptr);
  EXPECT_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, 0),
            IBV_REREG_MR_ERR_INPUT)
      << "the pages would have to be there";
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
  auto* const all = ibv_reg_mr(near_.pd, nullptr, SIZE_MAX, kFlags);
  ASSERT_NE(all, nullptr) << "an implicit region";
  EXPECT_EQ(ibv_dereg_mr(all), 0);
  EXPECT_EQ(ibv_reg_mr(near_.pd, nullptr, SIZE_MAX, IBV_ACCESS_LOCAL_WRITE), nullptr);
}

TEST_F(MemoryTest, AdviceIsChecked) {
  SKIP_UNDER_EMULATOR("has no process_vm_readv");
  TwoPages pages;
  constexpr int kFlags = IBV_ACCESS_ON_DEMAND | IBV_ACCESS_LOCAL_WRITE;
  auto* const mr = ibv_reg_mr(near_.pd, pages.at(0), 2 * TwoPages::kPage, kFlags);
  auto* const read_only = ibv_reg_mr(near_.pd, pages.at(0), 8, IBV_ACCESS_ON_DEMAND);
  ASSERT_TRUE(mr && read_only);
  ibv_sge sge{pages.address(8), static_cast<std::uint32_t>(TwoPages::kPage), mr->lkey};
  constexpr auto kRead = IBV_ADVISE_MR_ADVICE_PREFETCH;
  constexpr auto kWrite = IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE;
  constexpr auto kNoFault = IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT;
  constexpr std::uint32_t kWait = IBV_ADVISE_MR_FLAG_FLUSH;
  for (const auto advice : {kRead, kWrite, kNoFault}) {
    EXPECT_EQ(ibv_advise_mr(near_.pd, advice, 0, &sge, 1), 0);
    EXPECT_EQ(ibv_advise_mr(near_.pd, advice, kWait, &sge, 1), 0);
  }
  EXPECT_EQ(ibv_advise_mr(near_.pd, kRead, 2, &sge, 1), EINVAL);
  EXPECT_EQ(ibv_advise_mr(near_.pd, kRead, 0, &sge, 0), EINVAL);
  EXPECT_EQ(ibv_advise_mr(near_.pd, static_cast<ibv_advise_mr_advice>(3), 0, &sge, 1), EOPNOTSUPP);
  auto other = near_.element(0, 8);
  EXPECT_EQ(ibv_advise_mr(near_.pd, kRead, 0, &other, 1), EINVAL) << "not an on-demand region";
  other = {pages.address(0), 8, read_only->lkey};
  EXPECT_EQ(ibv_advise_mr(near_.pd, kRead, 0, &other, 1), 0);
  EXPECT_EQ(ibv_advise_mr(near_.pd, kWrite, 0, &other, 1), EINVAL);
  other.length = 9;
  EXPECT_EQ(ibv_advise_mr(near_.pd, kRead, 0, &other, 1), EINVAL);
  for (const auto first : {pages.address(0) - 1, pages.address(2 * TwoPages::kPage) + 1}) {
    other = {first, 2, mr->lkey};
    EXPECT_EQ(ibv_advise_mr(near_.pd, kRead, 0, &other, 1), EINVAL);
  }
  auto* const another = ibv_alloc_pd(near_.context);
  EXPECT_EQ(ibv_advise_mr(another, kRead, 0, &sge, 1), EINVAL);
  pages.unmap_second();
  EXPECT_EQ(ibv_advise_mr(near_.pd, kWrite, kWait, &sge, 1), EFAULT);
  EXPECT_EQ(ibv_advise_mr(near_.pd, kWrite, 0, &sge, 1), 0) << "nobody waits for the result";
  EXPECT_EQ(ibv_advise_mr(near_.pd, kNoFault, kWait, &sge, 1), 0);
}

TEST_F(MemoryTest, APrefetchedPageIsPresent) {
  SKIP_UNDER_EMULATOR("has no process_vm_readv");
  TwoPages pages;
  auto* const mr = ibv_reg_mr(near_.pd, pages.at(0), 2 * TwoPages::kPage,
                              IBV_ACCESS_ON_DEMAND | IBV_ACCESS_LOCAL_WRITE);
  ASSERT_NE(mr, nullptr);
  const auto is_present = [&](std::size_t offset) {
    unsigned char state = 0;
    EXPECT_EQ(::mincore(pages.at(offset), 1, &state), 0);
    return (state & 1) != 0;
  };
  ibv_sge sge{pages.address(TwoPages::kPage), 1, mr->lkey};
  EXPECT_FALSE(is_present(TwoPages::kPage));
  ASSERT_EQ(ibv_advise_mr(near_.pd, IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT, 0, &sge, 1), 0);
  EXPECT_FALSE(is_present(TwoPages::kPage));
  ASSERT_EQ(ibv_advise_mr(near_.pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, 0, &sge, 1), 0);
  EXPECT_TRUE(is_present(TwoPages::kPage));
  EXPECT_FALSE(is_present(0));
}

TEST_F(MemoryTest, WindowsBelongToAContextAndADomain) {
  auto* const mw = ibv_alloc_mw(near_.pd, IBV_MW_TYPE_2);
  ASSERT_NE(mw, nullptr);
  EXPECT_EQ(mw->context, near_.context);
  EXPECT_EQ(mw->pd, near_.pd);
  EXPECT_EQ(mw->type, IBV_MW_TYPE_2);
  auto* const pd = ibv_alloc_pd(near_.context);
  auto* const other = ibv_alloc_mw(pd, IBV_MW_TYPE_1);
  EXPECT_EQ(ibv_dealloc_pd(pd), EBUSY);
  EXPECT_EQ(ibv_dealloc_mw(other), 0);
  EXPECT_EQ(ibv_dealloc_pd(pd), 0);
  EXPECT_EQ(ibv_alloc_mw(near_.pd, static_cast<ibv_mw_type>(3)), nullptr);
  EXPECT_EQ(errno, EINVAL);
  mw->rkey = ibv_inc_rkey(mw->rkey);  // as programs may do after they have bound it
  const auto handle = std::exchange(mw->handle, 0);
  EXPECT_EQ(ibv_dealloc_mw(mw), EINVAL);
  mw->handle = handle;
  EXPECT_EQ(ibv_dealloc_mw(mw), 0);
}

TEST_F(MemoryTest, DeviceMemoryIsReachedByWords) {
  ibv_alloc_dm_attr attr{100, 6, 0};
  auto* const dm = ibv_alloc_dm(near_.context, &attr);
  ASSERT_NE(dm, nullptr);
  std::array<std::uint8_t, 8> bytes = {1, 2, 3, 4, 5, 6, 7, 8};
  EXPECT_EQ(ibv_memcpy_to_dm(dm, 92, bytes.data(), 8), 0);
  std::array<std::uint8_t, 4> found{};
  EXPECT_EQ(ibv_memcpy_from_dm(found.data(), dm, 96, 4), 0);
  EXPECT_EQ(found, (std::array<std::uint8_t, 4>{5, 6, 7, 8}));
  for (const auto& [offset, length] : {std::pair{1, 4}, {4, 2}, {96, 8}, {104, 0}}) {
    const auto at = static_cast<std::uint64_t>(offset);
    const auto size = static_cast<std::size_t>(length);
    EXPECT_EQ(ibv_memcpy_to_dm(dm, at, bytes.data(), size), EINVAL) << offset << ' ' << length;
    EXPECT_EQ(ibv_memcpy_from_dm(bytes.data(), dm, at, size), EINVAL) << offset << ' ' << length;
  }
  EXPECT_EQ(ibv_free_dm(dm), 0);
}

TEST_F(MemoryTest, DeviceMemoryIsLimited) {
  ibv_device_attr_ex device{};
  ASSERT_EQ(ibv_query_device_ex(near_.context, nullptr, &device), 0);
  EXPECT_EQ(device.max_dm_size, hca::kMaxDeviceMemory);
  const auto code = [&](ibv_alloc_dm_attr attr) {
    return ibv_alloc_dm(near_.context, &attr) == nullptr ? errno : 0;
  };
  EXPECT_EQ(code({0, 0, 0}), EINVAL);
  EXPECT_EQ(code({4, hca::kMaxDeviceMemoryAlignment + 1, 0}), EINVAL);
  EXPECT_EQ(code({4, 0, 1}), EINVAL);
  EXPECT_EQ(code({hca::kMaxDeviceMemory + 1, 0, 0}), ENOMEM);
  ibv_alloc_dm_attr all{hca::kMaxDeviceMemory, 0, 0};
  auto* const dm = ibv_alloc_dm(near_.context, &all);
  ASSERT_NE(dm, nullptr);
  EXPECT_EQ(code({4, 0, 0}), ENOMEM);
  EXPECT_EQ(ibv_free_dm(dm), 0);
  EXPECT_EQ(code({4, 0, 0}), 0) << "freed with the context";
}

TEST_F(MemoryTest, RegionsOfDeviceMemoryAreZeroBased) {
  ibv_alloc_dm_attr attr{128, 0, 0};
  auto* const dm = ibv_alloc_dm(near_.context, &attr);
  ASSERT_NE(dm, nullptr);
  constexpr unsigned kFlags = IBV_ACCESS_ZERO_BASED | IBV_ACCESS_LOCAL_WRITE;
  EXPECT_EQ(ibv_reg_dm_mr(near_.pd, dm, 0, 128, IBV_ACCESS_LOCAL_WRITE), nullptr);
  EXPECT_EQ(ibv_reg_dm_mr(near_.pd, dm, 64, 65, kFlags), nullptr);
  EXPECT_EQ(ibv_reg_dm_mr(near_.pd, dm, 129, 0, kFlags), nullptr);
  EXPECT_EQ(ibv_reg_dm_mr(near_.pd, dm, 0, 8, kFlags | IBV_ACCESS_ON_DEMAND), nullptr);
  auto* const mr = ibv_reg_dm_mr(near_.pd, dm, 64, 64, kFlags);
  ASSERT_NE(mr, nullptr);
  EXPECT_NE(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, near_.memory.data(), 8, 0),
            0);
  EXPECT_EQ(mr->addr, nullptr);
  auto* const pd = ibv_alloc_pd(near_.context);
  EXPECT_NE(pd->handle, near_.pd->handle);
  EXPECT_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, pd, nullptr, 0, 0), 0);
  EXPECT_EQ(ibv_dealloc_pd(pd), EBUSY);
  EXPECT_EQ(ibv_free_dm(dm), EBUSY);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
  EXPECT_EQ(ibv_free_dm(dm), 0);
}

TEST_F(MemoryTest, AParentDomainStandsForItsProtectionDomain) {
  ibv_td_init_attr td_attr{};
  auto* const td = ibv_alloc_td(near_.context, &td_attr);
  ASSERT_NE(td, nullptr);
  ibv_parent_domain_init_attr attr{};
  attr.pd = near_.pd;
  attr.td = td;
  auto* const parent = ibv_alloc_parent_domain(near_.context, &attr);
  ASSERT_NE(parent, nullptr);
  EXPECT_EQ(ibv_dealloc_td(td), EBUSY);
  auto* const mr = ibv_reg_mr(parent, near_.memory.data(), 8, IBV_ACCESS_LOCAL_WRITE);
  ASSERT_NE(mr, nullptr);
  EXPECT_EQ(mr->pd, parent);
  EXPECT_EQ(ibv_dealloc_pd(parent), EBUSY);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
  ibv_srq_init_attr srq_attr{nullptr, {1, 1, 0}};
  auto* const srq = ibv_create_srq(parent, &srq_attr);
  EXPECT_EQ(ibv_dealloc_pd(parent), EBUSY);
  EXPECT_EQ(ibv_destroy_srq(srq), 0);
  EXPECT_EQ(ibv_dealloc_pd(parent), 0);
  EXPECT_EQ(ibv_dealloc_td(td), 0);
}

TEST_F(MemoryTest, AProtectionDomainStaysWhileItHasAParentDomain) {
  auto* const pd = ibv_alloc_pd(near_.context);
  ibv_parent_domain_init_attr attr{};
  attr.pd = pd;
  auto* const parent = ibv_alloc_parent_domain(near_.context, &attr);
  ASSERT_NE(parent, nullptr);
  EXPECT_EQ(ibv_dealloc_pd(pd), EBUSY);
  EXPECT_EQ(ibv_dealloc_pd(parent), 0);
  EXPECT_EQ(ibv_dealloc_pd(pd), 0);
}

TEST_F(MemoryTest, AttributesOfAParentDomainAreChecked) {
  ibv_parent_domain_init_attr attr{};
  const auto code = [&] {
    return ibv_alloc_parent_domain(near_.context, &attr) == nullptr ? errno : 0;
  };
  EXPECT_EQ(code(), EINVAL) << "no protection domain";
  attr.pd = far_.pd;
  EXPECT_EQ(code(), EINVAL) << "of another context";
  attr.pd = near_.pd;
  attr.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS;
  EXPECT_EQ(code(), EINVAL) << "no allocators";
  attr.comp_mask = 1U << 31;
  EXPECT_EQ(code(), EOPNOTSUPP);
  attr.comp_mask = 0;
  attr.pd = ibv_alloc_parent_domain(near_.context, &attr);
  EXPECT_EQ(code(), EINVAL) << "of a parent domain";
  ibv_td_init_attr td{1};
  EXPECT_EQ(ibv_alloc_td(near_.context, &td), nullptr);
}

TEST_F(MemoryTest, AdvertisesItsCapabilities) {
  ibv_device_attr_ex attr{};
  ASSERT_EQ(ibv_query_device_ex(near_.context, nullptr, &attr), 0);
  EXPECT_TRUE(attr.orig_attr.device_cap_flags & IBV_DEVICE_MEM_WINDOW);
  EXPECT_TRUE(attr.orig_attr.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2B);
  EXPECT_GT(attr.orig_attr.max_mw, 0);
  EXPECT_EQ(attr.odp_caps.general_caps,
            std::uint64_t{IBV_ODP_SUPPORT} | std::uint64_t{IBV_ODP_SUPPORT_IMPLICIT});
  EXPECT_TRUE(attr.odp_caps.per_transport_caps.rc_odp_caps & IBV_ODP_SUPPORT_ATOMIC);
  EXPECT_FALSE(attr.odp_caps.per_transport_caps.uc_odp_caps & IBV_ODP_SUPPORT_READ);
  EXPECT_EQ(attr.odp_caps.per_transport_caps.ud_odp_caps,
            unsigned{IBV_ODP_SUPPORT_SEND} | unsigned{IBV_ODP_SUPPORT_RECV});
}

}  // namespace
}  // namespace softib::verbs
