// The header is C++ too, its sizes are right there, and its functions link.
#include "../include/tidegate.h"

int main()
{
    static tidegate_limiter64 limiter;
    tidegate_config config = {TIDEGATE_TOKEN_BUCKET, 2, TIDEGATE_SECOND, 0};
    tidegate_decision decision;
    if (tidegate_limiter64_init(&limiter, sizeof limiter, &config) != TIDEGATE_OK)
        return 1;
    if (tidegate_limiter64_check_n(&limiter, 1, 2, &decision) != TIDEGATE_OK || decision.remaining != 0)
        return 2;
    return tidegate_limiter64_check_n(&limiter, 1, 1, nullptr) == TIDEGATE_LIMITED ? 0 : 3;
}
