// A stand-in for the header of XLA's FFI: the types that handlers name, without the decoding of calls.
#pragma once
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

namespace xla::ffi {

enum class ErrorCode { kOk, kInvalidArgument, kInternal };

struct Error {
    ErrorCode code = ErrorCode::kOk;
    std::string text;
    Error() = default;
    Error(ErrorCode code, std::string text) : code(code), text(std::move(text)) {}
    static Error Success() { return {}; }
};

enum DataType { PRED, S8, S16, S32, S64, U8, F16, BF16, F32, F64, F8E4M3FN, F8E5M2 };

template <DataType type>
struct Buffer {
    std::vector<std::int64_t> sizes;
    void *memory = nullptr;
    const std::vector<std::int64_t> &dimensions() const { return sizes; }
    void *untyped_data() const { return memory; }
};

template <typename T>
struct Result {
    T value;
    T *operator->() { return &value; }
};

template <typename T>
struct PlatformStream {};

template <typename... Decoded>
struct Binding {
    template <typename T> auto Ctx() const { return added(static_cast<Ctx_<T> *>(nullptr)); }
    template <typename T> auto Arg() const { return Binding<Decoded..., T>(); }
    template <typename T> auto Ret() const { return Binding<Decoded..., Result<T>>(); }
    template <typename T> auto Attr(const char *) const { return Binding<Decoded..., T>(); }
    /// A function that does not take what the binding decodes does not compile, as with XLA.
    template <typename F> auto to(F *function) const {
        static_assert(std::is_invocable_r_v<Error, F, Decoded...>);
        return function;
    }

  private:
    template <typename T> struct Ctx_;
    template <typename T> Binding<Decoded..., T> added(Ctx_<PlatformStream<T>> *) const { return {}; }
};

template <typename... Decoded>
template <typename T>
struct Binding<Decoded...>::Ctx_ {};

struct Ffi {
    static Binding<> Bind() { return {}; }
};

}  // namespace xla::ffi

#define XLA_FFI_DEFINE_HANDLER_SYMBOL(name, function, binding) auto *const name = (binding).to(function)
