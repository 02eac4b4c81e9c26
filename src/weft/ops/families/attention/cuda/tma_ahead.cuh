    static_assert(!AHEAD || (MASK == FREE && MASKS == 0 && !SPLIT && !REGISTERS && !IN_TURNS));
    static_assert(!AHEAD || (8 % (2 * STAGES) == 0 && 8 % (2 * SLOTS) == 0));
    Cursor& cursor = cursors[AHEAD ? threadIdx.x / 32 : 0];
    if (lane == 0) cursor = Cursor{};
    __syncwarp();
    // Of the unit of `ahead`: its tiles, and those that all of its rows see whole.
    int end = 0, whole = 0;
    Step ahead{}, now{}, last_step{};
    auto open = [&](Cursor& c, Item work) {
        int at = work.first + c.u * units.rows;
        end = shuffle(max(1, min(work.end, decoder.seen(work, at + units.rows, BN))), 0);
        whole = shuffle(decoder.whole(work, at, BN), 0);
        work.first = at, work.number += c.u, work.begin = c.units % SLOTS;
        if (lane == 0) mine[c.units % 4] = work;
        bool last = c.u + WARPGROUPS >= c.count;
        ahead = Step::at(c.tiles, c.units, last, 0 >= whole);
        if (last) c.passed = c.tiles + end;
        ++c.units;
    };
    auto next_item = [&](Cursor& c) {
        c.base += c.count, c.tiles += c.all;
        Turn<2> hand;
        hand.skip(c.items++ % 4);
        Item work = take(hand);
        c.count = work.count, c.all = work.end, c.passed = c.tiles;
        c.u = (warpgroup + WARPGROUPS - c.base % WARPGROUPS) % WARPGROUPS;
        if (c.u < c.count) open(c, work);
        return c.u < c.count;
    };
    auto next_unit = [&](Cursor& c) {
        Item work = mine[(c.units - 1) % 4];
        work.first -= c.u * units.rows, work.number -= c.u, c.u += WARPGROUPS;
        if (c.u < c.count) open(c, work);
        return c.u < c.count;
    };
    // Moves `ahead` to the next step. False if none follows at once.
    auto advance = [&] {
        ahead = ahead.next(whole);
        if (ahead.j() < end) return true;
        Cursor c = cursor;
        __syncwarp();
        bool found = next_unit(c) || (c.passed == c.tiles + c.all && next_item(c));
        if (lane == 0) cursor = c;
        __syncwarp();
        return shuffle(found, 0) != 0;
    };
    // Finds a step when none has followed at once.
    auto find = [&] {
        Cursor c = cursor;
        __syncwarp();
        int count = 0;
#pragma unroll 1
        while (shuffle(c.u >= c.count && c.count >= 0, 0)) {
#pragma unroll 1
            for (int left = shuffle(c.tiles + c.all - c.passed, 0); left > 0; --left, ++c.passed) {
                int stage = c.passed % STAGES, parity = c.passed / STAGES % 2;
                keys.full[stage].wait(parity);
                __syncwarp();
                release(keys.empty[stage]);
                values.full[stage].wait(parity);
                __syncwarp();
                release(values.empty[stage]);
            }
            next_item(c);
        }
        count = c.count;
        if (lane == 0) cursor = c;
        __syncwarp();
        return shuffle(count, 0) >= 0;
    };
    auto slot_at = [&](int slot) { return qs + (warpgroup * SLOTS + slot) * QUERIES; };
    // Starts the product of the scores of `ahead`.
    auto issue = [&] {
        Step of{shuffle(ahead.bits, 0)};
        int slot = of.unit() % SLOTS, stage = of.tile() % STAGES;
        if (of.first()) queries[warpgroup].full[slot].wait(of.unit() / SLOTS % 2);
        left = wgmma_rows(slot_at(slot));
        keys.full[stage].wait(of.tile() / STAGES % 2);
        wgmma_begin();
        multiply_keys(s, stage);
    };
    // Frees the slot of a unit whose last scores are there.
    auto release_queries = [&](const Step& of) {
        if constexpr (!BOXES) release(queries[warpgroup].empty[of.unit() % SLOTS]);
    };
    float x[1][N][4];
#pragma unroll 1
    while (find()) {
        issue();
        wgmma_wait<0>();
        wgmma_results(s[0]);
        last_step = Step::none();
        bool follows;
#pragma unroll 1
        do {
            now = ahead, follows = advance();
            if (!follows) ahead = now;
            if (now.last() && follows) release(keys.empty[now.tile() % STAGES]);
            if (follows && ahead.first()) release_queries(now);
            Online<1> ended = online;
            if (now.first()) online = Online<1>();
            if (now.hides()) {
                const Item& place = mine[now.unit() % 4];
                view.template set<PACK>(p, place.keys, place.diagonal, mask, place.batch,
                                        place.head, place.first + warp * 16, place.rows);
                view.hide(s, now.j() * BN, 1);
            }
            float factor[1][2];
            bool grown = online.template raise<true>(s, factor, scale);
            online.template exponents<true>(s, x, scale);
            issue();
            online.raise_two(x);
            auto before_done = [&] {
                wgmma_wait<0>();
                wgmma_results(result[0]), wgmma_results(s[0]);
                if (last_step.last()) release(values.empty[last_step.tile() % STAGES]);
            };
            if (grown) {
                before_done();
                if (!now.first()) online.rescale(result, factor);
            } else {
                before_done();
            }
            if (last_step.stores()) release_stored((last_step.unit() + SLOTS - 1) % SLOTS);
            if (now.first() && !last_step.is_none()) {
                const Item place = mine[(now.unit() + 3) % 4];
                store_unit(ended, place);
                now = now.storing();
            }
#pragma unroll
            for (int i = 0; i < BN / 16; ++i) c_to_a<T>(weights[i], x[0][2 * i], x[0][2 * i + 1]);
            last_step = Step{shuffle(now.bits, 0)};
            fresh = last_step.first(), before = last_step.tile();
            wait_values();
            wgmma_begin();
            multiply_values();
        } while (follows);
        wgmma_wait<0>();
        wgmma_results(result[0]);
        release(values.empty[now.tile() % STAGES]), release(keys.empty[now.tile() % STAGES]);
        release_queries(now);
        if (now.stores()) release_stored((now.unit() + SLOTS - 1) % SLOTS);
        const Item place = mine[now.unit() % 4];
        store_unit(online, place);
        release_stored(now.unit() % SLOTS);
    }
