// Memory for weights that are read from end to end again and again.
//
// Large pages (2 MiB) let the processor fetch ahead without a stop every 4 KiB: one thread reads half as fast again. A
// layer is smaller than such a page, so layers share blocks of memory; a block is freed with the last of its layers.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>

namespace pressroom {

class Arena {
 public:
  // `bytes` of memory, zeroed, at a multiple of 64.
  static std::shared_ptr<uint8_t> take(size_t bytes) {
    static std::mutex mutex;
    static std::weak_ptr<Arena> latest;
    const std::lock_guard<std::mutex> held(mutex);
    bytes = (bytes + LINE - 1) / LINE * LINE;
    std::shared_ptr<Arena> arena = latest.lock();
    if (!arena || arena->size_ - arena->used_ < bytes) latest = arena = std::make_shared<Arena>(std::max(bytes, LEAST));
    uint8_t* data = arena->begin_ + arena->used_;
    arena->used_ += bytes;
    return {arena, data};
  }

  explicit Arena(size_t bytes) : size_(bytes) {
    data_ = ::mmap(nullptr, size_ + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data_ == MAP_FAILED) throw std::bad_alloc();
    begin_ = reinterpret_cast<uint8_t*>((reinterpret_cast<uintptr_t>(data_) + PAGE - 1) / PAGE * PAGE);
#ifdef MADV_HUGEPAGE
    ::madvise(begin_, size_, MADV_HUGEPAGE);
#endif
  }
  ~Arena() { ::munmap(data_, size_ + PAGE); }
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

 private:
  static constexpr size_t LINE = 64, PAGE = size_t{2} << 20, LEAST = size_t{64} << 20;

  void* data_;
  uint8_t* begin_;
  size_t size_;
  size_t used_ = 0;
};

}  // namespace pressroom
