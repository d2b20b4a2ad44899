#include "program/limits.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <boost/system/system_error.hpp>
#include <cerrno>
#include <cstring>
#include <new>
#include <stdexcept>

#include "program/files.hpp"

namespace ipoib::program {
namespace {

TEST(Limits, EachOneHasItsRemedy) {
  for (const auto& [code, word] : {std::pair{EMFILE, "ulimit -n"},
                                   {ENFILE, "fs.file-max"},
                                   {EFBIG, "ulimit -f"},
                                   {ENOSPC, "df"},
                                   {EDQUOT, "quota"},
                                   {EAGAIN, "ulimit -u"},
                                   {ENOMEM, "ulimit -v"}}) {
    const auto remedy = limit_remedy(std::string("/run/x: ") + std::strerror(code) + " [system]");
    EXPECT_TRUE(remedy.starts_with("; ")) << remedy;
    EXPECT_NE(remedy.find(word), std::string::npos) << remedy;
  }
  EXPECT_EQ(limit_remedy(std::bad_alloc().what()), limit_remedy(std::strerror(ENOMEM)));
}

TEST(Limits, ARemedyIsSaidOnce) {
  const std::string message = std::strerror(EMFILE);
  EXPECT_EQ(limit_remedy("the other program: " + message + limit_remedy(message)), "");
}

TEST(Limits, OtherErrorsHaveNone) {
  for (const int code : {EACCES, ENOENT, EPERM, EBUSY, EINVAL, EIO}) {
    EXPECT_EQ(limit_remedy(std::strerror(code)), "");
  }
  EXPECT_EQ(limit_remedy(""), "");
}

TEST(Limits, AFileThatMayNotGrowIsAnError) {
  report_file_size_limit();
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit small = before;
  small.rlim_cur = 10;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const std::string path = "/tmp/ipoib-limits-" + std::to_string(::getpid());
  const auto created = create_private_file(path, std::string(11, 'x'));
  const auto replaced = replace_file(path, std::string(11, 'x'));
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  ASSERT_TRUE(created.has_error());
  EXPECT_EQ(created.error().code, EFBIG);
  ASSERT_TRUE(replaced.has_error());
  EXPECT_EQ(replaced.error().code, EFBIG);
  EXPECT_NE(::access(path.c_str(), F_OK), 0) << "nothing half made is left";
}

TEST(Text, HasNoNumberOfBoost) {
  const boost::system::system_error failed(ENOMEM, boost::system::system_category(), "epoll");
  EXPECT_EQ(text_of(failed), "epoll: Cannot allocate memory");
  EXPECT_EQ(text_of(std::runtime_error("ib0 [1]")), "ib0 [1]");
}

}  // namespace
}  // namespace ipoib::program
