// One lambda for each alternative of a variant: what is missing does not compile.
#pragma once

namespace ipoib::link {

template <class... Lambdas>
struct Overloaded : Lambdas... {
  using Lambdas::operator()...;
};

}  // namespace ipoib::link
