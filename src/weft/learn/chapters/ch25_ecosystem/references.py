"""References of exercises that are no expression."""


def query(warps, gpu):
    block = 32 * warps
    return gpu.sms * (32 * gpu.max_warps_per_sm // block) * block
